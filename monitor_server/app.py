"""The application: one collector with its routes, error handlers and dashboard, and its server.

There is no global state: every application has its own collector.
"""

import asyncio
import functools
import importlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
from fastapi import FastAPI
from starlette.types import ASGIApp

from monitor_server.access.enforcement import Enforcement
from monitor_server.access.identification import Identification, TrustedProxies
from monitor_server.access.rate_limits import RateLimits
from monitor_server.access.sessions import Delegation
from monitor_server.action_links.issuing import PATH
from monitor_server.action_links.signing import LinkSecrets
from monitor_server.api.error_handlers import install_error_handlers
from monitor_server.api.example_runs.collapse import BATCH_SECONDS, SamplePlayer
from monitor_server.api.routes import ingest
from monitor_server.api.routes_by_role import API, check_routes_of, serve_routes
from monitor_server.api.running_collector.collector import Collector
from monitor_server.detection import engine as detection
from monitor_server.errors import StartupError
from monitor_server.exposition.prometheus import CollectorRegistry, Exposition
from monitor_server.http_server.bodies import HeldBodies
from monitor_server.http_server.connections import ConnectionLimits
from monitor_server.http_server.host_policy import HostPolicy
from monitor_server.http_server.security import SecuredApp, SecurityMiddleware
from monitor_server.http_server.server import Server, http_url
from monitor_server.importers.calibration_file import load_calibration
from monitor_server.instrumentation.spans import no_span
from monitor_server.notifications.configuration.current import CurrentFile
from monitor_server.notifications.configuration.loading import load_notifications
from monitor_server.notifications.configuration.tables import NotificationFile
from monitor_server.notifications.delivery.usability import channel_networks, check_usable
from monitor_server.settings import Settings, environment_variable
from monitor_server.step_processing.steps.detection import DetectionEngineFactory
from monitor_server.wiring.collector import build_collector

if TYPE_CHECKING:
    from monitor_server.exposition.open_telemetry.exporter import Otlp

__all__ = ["create_app", "create_server"]

log = logging.getLogger(__name__)

# Threads that read the store for requests. Each one that waits for Python's lock delays the event loop by 5 ms. With
# anyio's default of 40 threads, all busy with long series, every trainer would wait for 0.2 s.
REQUEST_THREADS = 4
MAX_KEY_BODY_BYTES = 4_096  # of a sign-in, for which nobody needs a key


def create_app(
    settings: Settings | None = None,
    *,
    registry: CollectorRegistry | None = None,
    clock: Callable[[], float] | None = None,
    engine: DetectionEngineFactory | None = None,
    sample_batch_seconds: float = BATCH_SECONDS,
) -> FastAPI:
    """Build the application of one collector. The database is opened at once; the writer starts with the server.

    Args:
        settings: The settings; read from the environment if left out.
        registry: The registry of the metrics; a new one if left out. One that describes its collectors, such as
            ``prometheus_client.REGISTRY``, reads all metrics once when the application is built.
        clock: Returns seconds since the epoch; if left out, a clock that no jump of the machine's clock moves.
        engine: Builds the detectors of each run; if left out, ours with the calibration of the settings.
        sample_batch_seconds: The wait after each batch of three steps of the recorded collapse.

    Raises:
        StartupError: If the database, or a file that a setting names, cannot be used.
    """
    settings = settings or Settings()
    check_routes_of(settings.role)
    proxies, networks = TrustedProxies.of(settings), channel_networks(settings)
    hosts = HostPolicy.of(bound_to=settings.host, allowed=settings.allowed_hosts.split(","))
    if settings.role != "ingest":  # this role neither sends links nor answers them
        LinkSecrets(settings.link_secret_file).check()
    calibration = load_calibration(settings.calibration)
    engine = engine or detection.EngineFactory(calibration)
    registry = registry or CollectorRegistry()
    exposition = Exposition(registry)
    otlp = _open_telemetry(registry) if settings.opentelemetry else None
    file = None
    if settings.notifications is not None and settings.role != "ingest":
        file = CurrentFile(settings.notifications, functools.partial(_read_notifications, settings=settings))
    collector = build_collector(
        settings, exposition=exposition, clock=clock, engine=engine, calibration=calibration, file=file,
        networks=networks, span=no_span if otlp is None else otlp.span,
    )  # fmt: skip

    player = SamplePlayer(collector, batch_seconds=sample_batch_seconds)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        collector.broadcast.open(asyncio.get_running_loop())
        anyio.to_thread.current_default_thread_limiter().total_tokens = REQUEST_THREADS
        collector.start()
        if otlp is not None:
            otlp.start()
        try:
            yield
        finally:
            collector.broadcast.close()
            await player.stop()
            if otlp is not None:
                await asyncio.to_thread(otlp.stop_metrics)
            await asyncio.to_thread(collector.stop)
            if otlp is not None:
                await asyncio.to_thread(otlp.stop_spans)

    app = SecuredApp(
        title="rlvitals collector",
        version="1",
        lifespan=lifespan,
        docs_url=None,  # `api.routes.health` serves our own page; FastAPI's loads scripts from a public address
        redoc_url=None,
        openapi_url=None,  # `api.routes.health` serves the description as well; FastAPI writes it anew for each request
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    bodies = HeldBodies(max(settings.max_held_bytes, settings.max_body_bytes))
    collector.exposition.watch_bodies(lambda: bodies.held_bytes)
    enforce = _enforcement(collector, proxies)

    def secure(inner: ASGIApp) -> ASGIApp:
        secured = exposition.refused_batches.count_answers(
            _secure(enforce(inner), settings, hosts=hosts, bodies=bodies), path=f"{API}/ingest"
        )
        return secured if otlp is None else otlp.requests(secured, prefix=API, direct=app.direct)

    app.secure = secure
    app.state.collector, app.state.bodies, app.state.sample = collector, bodies, player
    if settings.role in ("all", "ingest"):
        app.direct = {("POST", f"{API}/ingest"): functools.partial(ingest.ingest, collector=collector)}
    install_error_handlers(app)
    serve_routes(app, settings.role)
    if settings.role in ("all", "web"):
        _attach_dashboard(app, settings)
    return app


def create_server(
    app: FastAPI, *, log_level: str = "warning", on_listening: Callable[[], None] = lambda: None
) -> Server:
    """Make the server of an application of `create_app`, with the limits of its settings."""
    collector: Collector = app.state.collector
    settings = collector.settings
    limits = ConnectionLimits(
        connections=settings.max_connections,
        idle_seconds=settings.idle_timeout_seconds,
        request_seconds=settings.request_timeout_seconds,
        write_seconds=settings.write_timeout_seconds,
        unread_bytes=settings.max_unread_bytes,
    )
    server = Server(
        app, limits=limits, log_level=log_level, on_listening=on_listening, before_shutdown=collector.begin_stop
    )
    connections = server.connections
    collector.exposition.watch_connections(
        count=lambda: len(connections.open), unread_bytes=lambda: connections.unread_bytes
    )
    return server


def _enforcement(collector: Collector, proxies: TrustedProxies | None) -> Callable[[ASGIApp], Enforcement]:
    settings = collector.settings
    identification = Identification(
        keys=collector.keys,
        delegation=Delegation(collector.clock),
        clock=collector.clock,
        proxies=proxies,
        is_closed=bool(settings.oidc_issuer),
        is_https=settings.is_https,
    )
    limits = RateLimits(requests=settings.key_requests_per_second, bytes_=settings.key_bytes_per_second)
    collector.exposition.watch_caches({"callers": lambda: len(limits)})
    return lambda app: Enforcement(app, identification=identification, limits=limits, store=collector.store)


def _secure(app: ASGIApp, settings: Settings, *, hosts: HostPolicy, bodies: HeldBodies) -> SecurityMiddleware:
    return SecurityMiddleware(
        app,
        hosts=hosts,
        max_body_bytes=settings.max_request_bytes,
        body_limits={
            f"{API}/ingest": settings.max_body_bytes,
            f"{API}/session": min(MAX_KEY_BODY_BYTES, settings.max_request_bytes),
        },
        bodies=bodies,
        forms=PATH,
    )


def _open_telemetry(registry: CollectorRegistry) -> "Otlp":
    """Import OpenTelemetry's SDK, which no other function does, and build the exporter of traces and metrics."""
    try:
        # The import is needed only if the setting asks for it.
        from monitor_server.exposition.open_telemetry.exporter import Otlp  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise StartupError(
            f"RLVITALS_OPENTELEMETRY needs the extra otel ({error}): install rlvitals[otel], or unset the variable"
        ) from error
    return Otlp(registry, variable=environment_variable)


def _read_notifications(path: Path, *, settings: Settings) -> NotificationFile:
    file = load_notifications(path, variable=environment_variable)
    check_usable(file, settings=settings)
    return file


def _attach_dashboard(app: FastAPI, settings: Settings) -> None:
    """Mount the dashboard of the settings, if it is installed."""
    if not settings.dashboard:
        return
    module, _, function = settings.dashboard.partition(":")
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104 - compared, not bound
    try:
        attach = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        log.warning(
            "no dashboard: %s; install rlvitals[dashboard], or set RLVITALS_DASHBOARD= to run without it",
            error,
        )
        return
    except (AttributeError, ValueError) as error:
        raise StartupError(
            f"RLVITALS_DASHBOARD must be module:function, such as dashboard.app:attach, got {settings.dashboard!r}: "
            f"{error}"
        ) from error
    attach(app, api_url=http_url(host, settings.port))
