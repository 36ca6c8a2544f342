"""Runs an application on a socket that is bound first, so that an occupied port is reported in one line."""

import errno
import logging
import os
import socket
import sys
import time
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from monitor_server.errors import AddressUnusable
from monitor_server.http_server.connections import ConnectionLimits, Connections
from monitor_server.http_server.http_protocol import BoundedConfig, BoundedHttpProtocol

__all__ = ["AddressUnusable", "Server", "announce", "bind", "bound_url", "http_url"]

GRACE_SECONDS = 5
REPEAT_SECONDS = 60.0
MOST_LINES = 16
MUST_BE_LOCAL = "the host must be an address of this machine, such as 127.0.0.1 or 0.0.0.0"
BACKLOG = 128  # asyncio accepts this many at once, before it passes on the first


class RepeatedLines(logging.Filter):
    """Passes each warning once a minute: otherwise a client that sends invalid HTTP could fill the disk with lines.

    At most `MOST_LINES` warnings are remembered; uvicorn has a handful, and another one may then be passed again early.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._logged_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is logged."""
        if record.levelno >= logging.ERROR:
            return True
        now, line = self._monotonic(), str(record.msg)
        if now - self._logged_at.get(line, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return False
        self._logged_at.pop(line, None)
        self._logged_at[line] = now  # as the newest entry
        if len(self._logged_at) > MOST_LINES:
            del self._logged_at[next(iter(self._logged_at))]
        return True


class Server(uvicorn.Server):
    """A uvicorn server with limits on its connections.

    Args:
        app: The application.
        limits: The limits of connections.
        log_level: The least severe line of uvicorn's own log.
        grace_seconds: The time for requests that are still open when the server stops.
        on_listening: Called when the server accepts connections.
        before_shutdown: Called when the server begins to stop, to end answers that would keep connections open.

    Attributes:
        connections: The open connections.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: ConnectionLimits,
        log_level: str = "warning",
        grace_seconds: int = GRACE_SECONDS,
        on_listening: Callable[[], None] = lambda: None,
        before_shutdown: Callable[[], None] = lambda: None,
    ) -> None:
        config = BoundedConfig(
            app,
            http=BoundedHttpProtocol,
            ws="none",
            lifespan="on",
            log_level=log_level,
            access_log=False,
            log_config=None,  # our handler writes its lines, and its formatter escapes text of clients
            server_header=False,
            backlog=BACKLOG,
            proxy_headers=False,  # otherwise a client could claim the address of a trusted proxy
            timeout_keep_alive=int(limits.idle_seconds) + 1,  # the timer of BoundedHttpProtocol ends it first
            timeout_graceful_shutdown=grace_seconds,
        )
        self.connections = config.connections = Connections(limits)
        log = logging.getLogger("uvicorn.error")
        log.filters = [RepeatedLines()]  # replaces the filter of an earlier server in this process
        super().__init__(config)
        self._on_listening = on_listening
        self._before_shutdown = before_shutdown

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as uvicorn does, and report the start."""
        await super().startup(sockets)
        if self.started:
            self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End event streams, then shut down as uvicorn does."""
        self._before_shutdown()
        await super().shutdown(sockets)


def announce(line: str) -> None:
    """Print where a server listens; if standard output takes no line, as on a full disk, it is logged instead."""
    try:
        print(line, flush=True)  # noqa: T201 - a command prints
    except OSError as error:
        # What is left to write would fail again at the end of the process, and change its status.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        logging.getLogger(__name__).warning("%s (standard output cannot be written: %s)", line, error.strerror)


def bind(host: str, port: int, *, choice: str = "--port or RLVITALS_PORT") -> socket.socket:
    """Return a socket that is bound to an address.

    Args:
        host: A name or an address of this machine.
        port: The port; 0 for a free one.
        choice: The setting of the port, for the error message.

    Raises:
        AddressUnusable: If the port is in use, or the address does not belong to this machine.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # the second is raised for an invalid name
        raise AddressUnusable(f"cannot listen on {host}:{port}: {error}; {MUST_BE_LOCAL}") from error
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        other = MUST_BE_LOCAL if error.errno == errno.EADDRNOTAVAIL else f"choose another with {choice}"
        raise AddressUnusable(f"cannot listen on {host}:{port}: {error.strerror}; {other}") from error
    return bound


def bound_url(bound: socket.socket) -> str:
    """Return the URL of a socket, with the actual port if it was 0."""
    host, port = bound.getsockname()[:2]
    return http_url(host, port)


def http_url(host: str, port: int) -> str:
    """Return the URL of a port of a host, which is a name or an address; an IPv6 address is put into brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
