"""The transport of the dashboard's HTTP requests: httpx2's, which also reports connections that are reset at once."""

import socket

import httpx2

__all__ = ["ResetReportingTransport"]


class ResetReportingTransport(httpx2.AsyncHTTPTransport):
    """Raises an error of httpx2 if a connection is reset before its first request, for example by a stopping collector.

    httpx2 reads the socket of each new connection, but uvloop has no socket any more if the connection was reset.
    """

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and return the answer.

        Raises:
            httpx2.HTTPError: If there is no answer.
        """
        try:
            return await super().handle_async_request(request)
        except AttributeError as error:
            if error.obj is not None or not hasattr(socket.socket, str(error.name)):
                raise  # the cause is not the missing socket, so this is a defect
            raise httpx2.ConnectError("the connection was reset at once", request=request) from error
