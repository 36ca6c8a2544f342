"""Serves the routes that trainers use all the time without the framework's own dispatch.

FastAPI finds the route, resolves dependencies and opens exit stacks for each request, which takes about as much
processor time as decoding a batch. A direct route is called by its path and method only. The application's handlers
answer its errors, so that a client sees no difference; the application describes the route in its schema.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["DirectRoutes", "Endpoint"]

Endpoint = Callable[[Request], Awaitable[Response]]


class DirectRoutes:
    """Wraps an application and serves some of its routes itself.

    Args:
        app: Serves all other routes.
        endpoints: The function for each method and path.
        handlers: The handlers of errors, by error class.
    """

    def __init__(
        self, app: ASGIApp, endpoints: Mapping[tuple[str, str], Endpoint], *, handlers: Mapping[Any, Any]
    ) -> None:
        self._app = app
        self._endpoints = endpoints
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        endpoint = self._endpoints.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive, send)
        try:
            response = await endpoint(request)
        except Exception as error:
            handle = next(self._handlers[kind] for kind in type(error).__mro__ if kind in self._handlers)
            await (await handle(request, error))(scope, receive, send)
            if handle is self._handlers.get(Exception):
                raise  # as the framework does, for the server's log
            return
        await response(scope, receive, send)
