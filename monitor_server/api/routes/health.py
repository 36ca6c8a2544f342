"""Health, readiness, metrics, and the reference of the API."""

from fastapi import APIRouter, Request, Response
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


@router.get("/healthz")
async def healthz() -> Health:
    """Report that the process is alive."""
    return Health()


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
def metrics(collector: Serving) -> Response:
    """Return the metrics in the text format of Prometheus."""
    return Response(collector.exposition.render(), media_type=CONTENT_TYPE)


@router.get("/docs", include_in_schema=False)
def docs(request: Request) -> HTMLResponse:
    """Draw the reference of the API for this process; nothing is loaded from elsewhere."""
    return HTMLResponse(draw_reference(request.app.openapi()), headers={"Content-Security-Policy": POLICY})
