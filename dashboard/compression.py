"""Compresses the scripts of Dash (megabytes that browsers cache) once each, outside the event loop.

Starlette's own GZip middleware would compress the same script for every new visitor, on the loop that ingests steps.
"""

import asyncio
import gzip
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["CompressedScripts"]

SCRIPTS: Final = "/_dash-component-suites/"
MAX_KEPT: Final = 64  # Dash serves fewer scripts than that; a client that invents addresses must not fill the memory


class CompressedScripts:
    """Wraps Dash, and keeps the compressed body of each script that it has served.

    Args:
        app: The application that serves the scripts.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._kept: dict[str, tuple[Message, bytes]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a script compressed if the browser accepts that, and anything else unchanged."""
        path = scope.get("path", "")
        headers = dict(scope.get("headers", ()))
        is_revalidation = b"if-none-match" in headers  # the answer is most likely a 304 without a body
        if not path.startswith(SCRIPTS) or is_revalidation or b"gzip" not in headers.get(b"accept-encoding", b""):
            await self._app(scope, receive, send)
            return
        if path not in self._kept:
            start, body = await self._fetch(scope, receive)
            if start["status"] != 200 or len(self._kept) >= MAX_KEPT:  # noqa: PLR2004 - HTTP's "OK"
                await send(start)
                await send({"type": "http.response.body", "body": body})
                return
            self._kept[path] = await asyncio.to_thread(_compressed, start, body)
        start, body = self._kept[path]
        await send(start)
        await send({"type": "http.response.body", "body": body})

    async def _fetch(self, scope: Scope, receive: Receive) -> tuple[Message, bytes]:
        start: Message = {}
        chunks: list[bytes] = []

        async def collect(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                chunks.append(message.get("body", b""))

        await self._app(scope, receive, collect)
        return start, b"".join(chunks)


def _compressed(start: Message, body: bytes) -> tuple[Message, bytes]:
    squeezed = gzip.compress(body, compresslevel=6, mtime=0)
    headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
    headers += [
        (b"content-encoding", b"gzip"),
        (b"content-length", str(len(squeezed)).encode()),
        (b"vary", b"accept-encoding"),
    ]
    return {**start, "headers": headers}, squeezed
