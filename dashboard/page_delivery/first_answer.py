"""Answers the first request of a page with Dash's document, filled in for the requested page."""

import logging
import re
import zlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from dashboard.page_delivery.compression import accepts_gzip, answer_of
from dashboard.page_delivery.own_files import PLOTLY

__all__ = ["ASKED_PATH", "FIRST_VIEW", "HEAD", "FirstAnswer"]

ASKED_PATH: Final = "rlvitals.asked_path"  # in the scope: the page's path, where Dash's own path is "/"
HEAD: Final = "<!-- head -->"
FIRST_VIEW: Final = "<!-- first view -->"

# Dash puts the script of its old table on every page, and nothing here uses it.
UNUSED: Final = re.compile(r'<script src="[^"]*/dash_table/[^"]*"></script>\n?')
CHARTED: Final = re.compile(r"/runs/[^/]+(/alerts/[^/]+)?/?|/compare/?")  # pages that begin with a chart

SCRIPT: Final = re.compile(r'<script src="([^"]+)"')
GZIP: Final = 31  # the window of zlib that writes gzip

View = Callable[[str, str], Awaitable[str]]

log = logging.getLogger(__name__)


class FirstAnswer:
    """Wraps Dash.

    The head is sent at once, so the browser loads scripts and styles while the collector is asked for the first view.

    Args:
        app: The application that answers every other request.
        view: Returns the first view of a path and a query as HTML; empty where a page has none.
    """

    def __init__(self, app: ASGIApp, view: View) -> None:
        self._app = app
        self._view = view
        self._document: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["path"] != "/" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        if self._document is None:  # it is the same for every page
            _, body = await answer_of(self._app, scope, receive)
            self._document = UNUSED.sub("", body.decode())
        path = scope.get(ASKED_PATH, "/")
        before, after = self._document.split(FIRST_VIEW)
        before = before.replace(HEAD, _links(SCRIPT.findall(after), is_charted=CHARTED.fullmatch(path) is not None))
        headers = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"cache-control", _caching(scope)),
            (b"vary", b"accept-encoding"),
        ]
        squeeze = zlib.compressobj(wbits=GZIP) if accepts_gzip(scope) else None
        if squeeze:
            headers.append((b"content-encoding", b"gzip"))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        body = before.encode()
        if squeeze:
            body = squeeze.compress(body) + squeeze.flush(zlib.Z_SYNC_FLUSH)
        await send({"type": "http.response.body", "body": body, "more_body": True})
        try:
            view = await self._view(path, scope["query_string"].decode("latin-1"))
        except Exception:  # the answer has begun, and without its end the browser gets no scripts
            log.exception("the first view of %r failed", path)
            view = ""
        body = f"{view}{after}".encode()
        if squeeze:
            body = squeeze.compress(body) + squeeze.flush()
        await send({"type": "http.response.body", "body": body})


def _caching(scope: Scope) -> bytes:
    """Return who may keep the page: a browser for the button Back, but not what a person had to sign in for."""
    is_open = not any(name in (b"authorization", b"cookie") for name, _ in scope["headers"])
    return b"private, no-cache" if is_open else b"no-store"


def _links(scripts: Sequence[str], *, is_charted: bool) -> str:
    """Return the elements that load the scripts early.

    A page with a chart starts Plotly as soon as it is loaded, while Dash still requests the layout of the page. On
    other pages Plotly is read in advance for the next page.
    """
    early = [f'<link rel="preload" as="script" href="{address}">' for address in scripts]
    plotly = (
        f'<script async src="{PLOTLY}"></script>'
        if is_charted
        else f'<link rel="prefetch" as="script" href="{PLOTLY}">'
    )
    return "\n    ".join([*early, plotly])
