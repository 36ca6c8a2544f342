"""Refuses a request before a route receives it, in the shape that `api.error_handlers` gives to every error."""

import json
from typing import Final

from starlette.types import Send

from monitor_server.errors import CollectorError
from monitor_server.text_safety.printable import printable

__all__ = ["DETAIL_CHARS", "refuse"]

# Longer than any message of ours; what a client has sent may be longer.
DETAIL_CHARS: Final = 2000


async def refuse(error: CollectorError, send: Send) -> None:
    """Answer an error, and close the connection: what is left of the body is not read."""
    detail = printable(error, longest=DETAIL_CHARS)
    body = json.dumps({"error": type(error).__name__, "detail": detail}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *((name.lower().encode(), value.encode()) for name, value in error.headers.items()),
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
