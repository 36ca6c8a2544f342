"""Runs the application on a socket that is bound first, so that a port in use is reported in one line."""

import socket

import uvicorn
from fastapi import FastAPI

from monitor_server.errors import AddressUnusable

__all__ = ["Server", "bind"]

GRACE_SECONDS = 5


class Server(uvicorn.Server):
    """A uvicorn server that ends event streams before it waits for their connections."""

    def __init__(self, app: FastAPI, *, log_level: str = "info") -> None:
        super().__init__(
            uvicorn.Config(
                app, log_level=log_level, access_log=False, lifespan="on", timeout_graceful_shutdown=GRACE_SECONDS
            )
        )
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End event streams, then shut down as uvicorn does."""
        self._app.state.collector.broadcast.close()
        await super().shutdown(sockets)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address.

    Raises:
        AddressUnusable: If the port is in use, or the address does not belong to this machine.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise AddressUnusable(f"cannot listen on {host}:{port}: {error}") from error
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise AddressUnusable(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port or RLVITALS_PORT"
        ) from error
    return bound
