"""Health, readiness, metrics, and the reference of the API."""

import asyncio
import gzip
import json
import re
from collections.abc import Callable
from typing import Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse

from monitor_server.access.callers import Caller, Scope
from monitor_server.access.enforcement import CALLER
from monitor_server.api.dependencies import Serving
from monitor_server.api.routes.api_reference import POLICY, draw_reference
from monitor_server.api.running_collector.health import check_health
from monitor_server.api.schemas import Health, Readiness
from monitor_server.errors import Unavailable
from monitor_server.exposition.prometheus import CONTENT_TYPE

__all__ = ["router"]

router = APIRouter()

LONGEST_SCRAPE_SECONDS: Final = 30.0  # Prometheus waits for ten seconds by default
ACCEPTED_GZIP: Final = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))", re.IGNORECASE)
METRICS_LEVEL: Final = 1  # of gzip: a seventh of the bytes; the default level takes three times as long for an eighth


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz")
async def healthz() -> Health:
    """Report that the process is alive."""
    return Health()


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz")
async def readyz(request: Request, collector: Serving) -> Readiness:
    """Report whether batches are stored and processed, the number of quarantined runs, and of failing channels.

    If keys are in use, the numbers and the reason need a key that reads every project; the status alone needs none.
    """
    caller: Caller | None = request.scope[CALLER]
    is_informed = caller is not None and caller.may(Scope.READ) and caller.project is None
    health = await check_health(collector)
    if health.problem is not None:
        hidden = "the collector is not ready; its log says why, and so does this route with a key that reads all"
        raise Unavailable(health.problem if is_informed else hidden)
    if not is_informed:
        return Readiness(quarantined_runs=None, failing_channels=None)
    return Readiness(quarantined_runs=health.quarantined, failing_channels=health.failing_channels)


@router.get("/metrics", response_class=Response)
async def metrics(request: Request, collector: Serving) -> Response:
    """Return the metrics in the text format of Prometheus, compressed for whoever accepts gzip.

    Scrapes at the same time have the same answer.
    """
    text = await collector.scrape.result(collector.exposition.render, within_seconds=LONGEST_SCRAPE_SECONDS)
    if text is None:
        raise Unavailable(f"the metrics were not read within {LONGEST_SCRAPE_SECONDS:g} s; send again later")
    headers = {"Vary": "Accept-Encoding"}
    if ACCEPTED_GZIP.search(request.headers.get("accept-encoding", "")):
        headers["Content-Encoding"] = "gzip"
        text = await asyncio.to_thread(gzip.compress, text, METRICS_LEVEL, mtime=0)
    return Response(text, media_type=CONTENT_TYPE, headers=headers)


@router.get("/docs", include_in_schema=False)
def docs(request: Request) -> HTMLResponse:
    """Return the reference of the API for this process; nothing is loaded from elsewhere."""
    page = _once(request.app, "reference", lambda: draw_reference(request.app.openapi()).encode())
    return HTMLResponse(page, headers={"Content-Security-Policy": POLICY})


@router.api_route("/openapi.json", methods=["GET", "HEAD"], include_in_schema=False)
def description(request: Request) -> Response:
    """Return the description of the API for programs."""
    text = _once(request.app, "description", lambda: json.dumps(request.app.openapi()).encode())
    return Response(text, media_type="application/json")


def _once(app: FastAPI, name: str, make: Callable[[], bytes]) -> bytes:
    """Return what ``make`` has returned for this application; drawing the reference takes 30 ms."""
    if not hasattr(app.state, name):
        setattr(app.state, name, make())
    drawn: bytes = getattr(app.state, name)
    return drawn
