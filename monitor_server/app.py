"""The application: routes, error shape, dashboard and life cycle around one collector. Holds no global state."""

import asyncio
import importlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from starlette.routing import Match

from monitor_server.api.collector import Collector
from monitor_server.api.routes import alerts, ingest, operate, runs, stream
from monitor_server.detection.engine import Engine as Detectors
from monitor_server.errors import MethodNotAllowed, UnknownPath, install_handlers
from monitor_server.exposition.prometheus import CollectorRegistry, Exposition
from monitor_server.importers.calibration import load_calibration
from monitor_server.projection.tracking import Engine
from monitor_server.settings import Settings

__all__ = ["create_app"]

log = logging.getLogger(__name__)

API = "/api/v1"
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def create_app(
    settings: Settings | None = None,
    *,
    registry: CollectorRegistry | None = None,
    clock: Callable[[], float] = time.time,
    engine: type[Engine] | None = None,
) -> FastAPI:
    """Build the collector's application; its database is opened at once, its writer starts with the server.

    Args:
        settings: Read from the environment if left out.
        registry: Where metrics are registered; an own one if left out.
        clock: Seconds since the epoch.
        engine: The detectors of one run; ours, calibrated as the settings say, if left out.

    Raises:
        StartupError: If the database or the calibration cannot be used.
    """
    settings = settings or Settings()
    engine = engine or Detectors.calibrated(load_calibration(settings.calibration))
    exposition = Exposition(registry or CollectorRegistry())
    collector = Collector.build(settings, exposition=exposition, clock=clock, engine=engine)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        collector.broadcast.open(asyncio.get_running_loop())
        collector.writer.start()
        try:
            yield
        finally:
            collector.broadcast.close()
            await asyncio.to_thread(collector.writer.stop)
            collector.store.close()

    app = FastAPI(
        title="rlvitals collector",
        version="1",
        lifespan=lifespan,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.collector = collector
    install_handlers(app)
    for module in (ingest, runs, alerts, stream):
        app.include_router(module.router, prefix=API)
    app.include_router(operate.router)
    app.add_api_route("/api/{path:path}", _nothing_here, methods=METHODS, include_in_schema=False)
    _attach_dashboard(app, settings)
    return app


async def _nothing_here(request: Request) -> None:
    """Refuse what no route serves, before the dashboard answers it with a page."""
    path = request.url.path
    for route in request.app.routes:
        if getattr(route, "endpoint", None) is _nothing_here:
            break
        if route.matches(request.scope)[0] is Match.PARTIAL:
            raise MethodNotAllowed(f"{request.method} is not served at {path}; see /docs")
    raise UnknownPath(f"nothing is served at {path}; see /docs")


def _attach_dashboard(app: FastAPI, settings: Settings) -> None:
    """Mount the dashboard that the setting names, if it is installed."""
    if not settings.dashboard:
        return
    module, _, function = settings.dashboard.partition(":")
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104 - compared, not bound
    try:
        attach = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        log.warning("no dashboard: %s; install rlvitals[dashboard] or set RLVITALS_DASHBOARD= to be without", error)
        return
    attach(app, api_url=f"http://{host}:{settings.port}")
