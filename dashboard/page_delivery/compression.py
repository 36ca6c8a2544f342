"""Compresses the answers of Dash, outside the event loop that ingests steps.

A script of Dash (up to megabytes, which browsers cache) is compressed once and kept. An update of a page is compressed
each time at a low level: the rows of 1,000 runs are 800 kB, and a tenth of that compressed.
"""

import asyncio
import gzip
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["SCRIPTS", "Compressed", "accepts_gzip", "answer_of"]

SCRIPTS: Final = "/_dash-component-suites/"
ANSWERS: Final = "/_dash-"  # updates, layout and dependencies
MAX_KEPT: Final = 64  # Dash serves fewer scripts than that; a client that invents addresses must not fill the memory
SMALL_BYTES: Final = 1024  # one packet; compressing it gains nothing
SCRIPT_LEVEL: Final = 6
ANSWER_LEVEL: Final = 2


class Compressed:
    """Wraps Dash, and keeps the compressed body of each script that it has served.

    Args:
        app: The application that answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._kept: dict[str, tuple[Message, bytes]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer compressed if the browser accepts that, and anything else unchanged."""
        path = scope.get("path", "")
        headers = dict(scope.get("headers", ()))
        is_revalidation = b"if-none-match" in headers  # the answer is most likely a 304 without a body
        if not path.startswith(ANSWERS) or is_revalidation or not accepts_gzip(scope):
            await self._app(scope, receive, send)
            return
        if path in self._kept:
            start, body = self._kept[path]
        else:
            start, body = await answer_of(self._app, scope, receive)
            is_script = path.startswith(SCRIPTS) and start["status"] == 200  # noqa: PLR2004 - HTTP's "OK"
            if len(body) > SMALL_BYTES:
                level = SCRIPT_LEVEL if is_script else ANSWER_LEVEL
                start, body = await asyncio.to_thread(_compress, start, body, level)
            if is_script and len(self._kept) < MAX_KEPT:
                self._kept[path] = start, body
        await send(start)
        await send({"type": "http.response.body", "body": body})


def accepts_gzip(scope: Scope) -> bool:
    """Return whether the browser accepts gzip."""
    return b"gzip" in dict(scope.get("headers", ())).get(b"accept-encoding", b"")


async def answer_of(app: ASGIApp, scope: Scope, receive: Receive) -> tuple[Message, bytes]:
    """Return the whole answer of an application: its start with status and headers, and its body."""
    start: Message = {}
    chunks: list[bytes] = []

    async def collect(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        else:
            chunks.append(message.get("body", b""))

    await app(scope, receive, collect)
    return start, b"".join(chunks)


def _compress(start: Message, body: bytes, level: int) -> tuple[Message, bytes]:
    squeezed = gzip.compress(body, compresslevel=level, mtime=0)
    headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
    headers += [
        (b"content-encoding", b"gzip"),
        (b"content-length", str(len(squeezed)).encode()),
        (b"vary", b"accept-encoding"),
    ]
    return {**start, "headers": headers}, squeezed
