"""Health, readiness and metrics."""

from fastapi import APIRouter, Response

from monitor_server.api.dependencies import Reading, Serving
from monitor_server.api.schemas import Health
from monitor_server.errors import Unavailable
from monitor_server.exposition.prometheus import CONTENT_TYPE

__all__ = ["router"]

router = APIRouter()


@router.get("/healthz")
async def healthz() -> Health:
    """Report that the process is alive."""
    return Health()


@router.get("/readyz")
def readyz(collector: Serving, reading: Reading) -> Health:
    """Report that batches can be stored."""
    reading.ping()
    if not collector.writer.is_alive:
        raise Unavailable("the writer has ended; restart the collector")
    return Health()


@router.get("/metrics", response_class=Response)
def metrics(collector: Serving) -> Response:
    """Return the metrics in the text format of Prometheus."""
    return Response(collector.exposition.render(), media_type=CONTENT_TYPE)
