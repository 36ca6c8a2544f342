"""Connections to the collector."""

import socket

import httpx2

__all__ = ["Transport"]


class Transport(httpx2.AsyncHTTPTransport):
    """Names a connection that is reset before its first request is sent, as by a collector that is being stopped.

    httpx2 looks at the socket of each new connection, and uvloop has none any more where the connection was reset.
    """

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and return the answer.

        Raises:
            httpx2.HTTPError: If there is none.
        """
        try:
            return await super().handle_async_request(request)
        except AttributeError as error:
            if error.obj is not None or not hasattr(socket.socket, str(error.name)):
                raise  # something else than the missing socket, and a defect
            raise httpx2.ConnectError("the connection was reset at once", request=request) from error
