"""Refuses a request before a route receives it, in the same shape that `api.error_handlers` uses.

A browser that opens a page receives the same error as a page.
"""

import json
from html import escape
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope, Send

from monitor_server.errors import CollectorError
from monitor_server.text_safety.printable import printable

__all__ = ["DETAIL_CHARS", "opens_page", "refuse"]

# Our own messages are shorter; text from a client may be longer.
DETAIL_CHARS: Final = 2000
POLICY: Final = (
    b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE: Final = """<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Not shown · rlvitals</title>
    <style>
      :root { color-scheme: light dark; }
      body { margin: 15vh auto 0; max-width: 36rem; padding: 0 1.25rem; font: 16px/1.5 system-ui, sans-serif; }
      h1 { font-size: 1.4rem; } p { overflow-wrap: anywhere; } a { color: inherit; }
    </style>
  </head>
  <body><main><h1>This page cannot be shown</h1><p>DETAIL</p><p><a href="/">All runs</a></p></main></body>
</html>
"""


def opens_page(scope: Scope) -> bool:
    """Whether a browser opens a page of the dashboard."""
    is_page = scope["method"] == "GET" and not scope["path"].startswith(("/api/", "/_dash-"))
    return is_page and "text/html" in Headers(scope=scope).get("accept", "")


async def refuse(error: CollectorError, send: Send, *, scope: Scope) -> None:
    """Answer an error, and close the connection, because the rest of the body is not read."""
    detail = printable(error, longest=DETAIL_CHARS)
    if opens_page(scope):
        body = PAGE.replace("DETAIL", escape(f"{detail[:1].upper()}{detail[1:]}.")).encode()
        kind = [(b"content-type", b"text/html; charset=utf-8"), (b"content-security-policy", POLICY)]
    else:
        body = json.dumps({"error": type(error).__name__, "detail": detail}).encode()
        kind = [(b"content-type", b"application/json")]
    headers = [
        *kind,
        (b"vary", b"accept"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *((name.lower().encode(), value.encode()) for name, value in error.headers.items()),
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
