"""Serves the dashboard's own scripts as one file and its own styles as another, and the part of Plotly that it uses.

The address of each file of its own holds a hash of its content, so a browser keeps it for a year and asks for it once.
It keeps the other files, of which nobody's data is a part, for some minutes.

Dash would load Plotly with every kind of chart and map, 1.5 MB compressed. assets/plotly-basic.min.js is Plotly's own
bundle of lines, bars and pies (plotly.js-basic-dist-min of npm, MIT): a quarter to load, to compile and to start.
"""

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard.page_delivery.compression import SCRIPTS, accepts_gzip
from dashboard.theme import style_sheet

__all__ = ["PLOTLY", "OwnFiles", "plotly_route"]

ASSETS: Final = Path(__file__).parent.parent / "assets"
PLOTLY: Final = "/_dash-component-suites/plotly/package_data/plotly.min.js"  # the address from which Dash loads it
PLOTLY_FILE: Final = ASSETS / "plotly-basic.min.js"
# Files that only some pages need, or that a page needs before it is drawn; the pages name them.
NAMED_BY_PAGES: Final = frozenset({"theme.js", "sign_in.js", PLOTLY_FILE.name})
STATIC: Final = (SCRIPTS, "/assets/")
# A page would request a script whose address has no version (Plotly's) again right after it has prefetched it. After
# ten minutes a page may still use its copy once, while the browser asks whether the script has changed.
SHORT_CACHE: Final = (b"cache-control", b"public, max-age=600, stale-while-revalidate=604800")
FOR_A_YEAR: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class _File:
    """One file as it is sent: plain and compressed."""

    address: str
    media_type: str
    plain: bytes
    squeezed: bytes

    @classmethod
    def of(cls, ending: str, media_type: str, text: str) -> "_File":
        body = text.encode()
        address = f"/assets/page.{hashlib.sha256(body).hexdigest()[:16]}.{ending}"
        return cls(address, media_type, body, gzip.compress(body, compresslevel=9, mtime=0))


class OwnFiles:
    """Wraps Dash, answers the two addresses itself, and lets caches keep the other files.

    Args:
        app: The application that answers every other address.

    Attributes:
        script: The address of the scripts.
        style: The address of the colours and styles.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        paths = sorted(path for path in ASSETS.glob("*.js") if path.name not in NAMED_BY_PAGES)
        script = _File.of("js", "text/javascript", "\n;\n".join(path.read_text("utf-8") for path in paths))
        style = _File.of("css", "text/css", f"{style_sheet()}\n{(ASSETS / 'style.css').read_text('utf-8')}")
        self._files = {file.address: file for file in (script, style)}
        self.script, self.style = script.address, style.address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        file = self._files.get(scope.get("path", ""))
        if file is None:
            is_static = scope.get("path", "").startswith(STATIC)
            await self._app(scope, receive, _allow_caching(send) if is_static else send)
            return
        is_squeezed = accepts_gzip(scope)
        headers = {"Cache-Control": FOR_A_YEAR, "Vary": "Accept-Encoding"}
        if is_squeezed:
            headers["Content-Encoding"] = "gzip"
        body = file.squeezed if is_squeezed else file.plain
        await Response(body, headers=headers, media_type=file.media_type)(scope, receive, send)


def _allow_caching(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] in (200, 304):
            headers = list(message["headers"])
            if all(name.lower() != SHORT_CACHE[0] for name, _ in headers):
                headers.append(SHORT_CACHE)
            message = {**message, "headers": headers}
        await send(message)

    return sending


def plotly_route() -> Route:
    """Return the route that answers Dash's address of Plotly with the bundle that the charts need."""
    body = PLOTLY_FILE.read_bytes()
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'

    async def plotly(request: Request) -> Response:
        is_held = request.headers.get("if-none-match") == tag
        headers = {"ETag": tag}
        return Response(b"" if is_held else body, 304 if is_held else 200, headers, "text/javascript")

    return Route(PLOTLY, plotly, methods=["GET"])
