"""Traces and metrics by OpenTelemetry's protocol (OTLP over HTTP), when RLVITALS_OPENTELEMETRY asks for them.

The standard variables OTEL_* of OpenTelemetry's SDK set where and how to export. The SDK is the extra ``otel``; this
module is imported only when the setting is on. Spans are exported by the SDK's own thread, metrics by a thread here.
Neither is waited for: what an endpoint does not accept in time is dropped, and a stop waits `STOP_SECONDS` at most.
"""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from importlib.metadata import version
from types import TracebackType
from typing import Any, Final, Self

from opentelemetry import trace
from opentelemetry.environment_variables import OTEL_METRICS_EXPORTER, OTEL_TRACES_EXPORTER
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_METRIC_EXPORT_INTERVAL, OTEL_SDK_DISABLED
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric as Family
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor_server.exposition.otel_variables import METRIC_INTERVAL_MS, check_variables
from monitor_server.request_ids import HEADER
from monitor_server.spans import AttributeValue, Span

__all__ = ["Otlp"]

log = logging.getLogger(__name__)

SCOPE: Final = "rlvitals"
STOP_SECONDS: Final = 2.0  # a supervisor kills a process that takes long to stop
SERVER_ERROR: Final = 500
NANO: Final = 1_000_000_000


class Otlp:
    """Records the spans of one collector and exports them, and exports the metrics of its registry."""

    def __init__(self, registry: CollectorRegistry, *, variable: Callable[[str], str | None]) -> None:
        """Prepare the exporters, whose addresses the environment names.

        Args:
            registry: The metrics that Prometheus can scrape; the same are exported.
            variable: Returns an environment variable.

        Raises:
            StartupError: If a variable OTEL_* cannot be used.
        """
        check_variables(variable)
        resource = _resource()
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._tracer = self._provider.get_tracer(SCOPE)
        self._metrics = _Metrics(registry, resource)
        self._interval = int((variable(OTEL_METRIC_EXPORT_INTERVAL) or "").strip() or METRIC_INTERVAL_MS) / 1000.0
        self._exporter = OTLPMetricExporter()
        is_disabled = (variable(OTEL_SDK_DISABLED) or "").lower() == "true"
        self._exports_spans = not is_disabled and variable(OTEL_TRACES_EXPORTER) != "none"
        self._exports_metrics = not is_disabled and variable(OTEL_METRICS_EXPORTER) != "none"
        self._is_stopping, self._is_over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._export_metrics, name="rlvitals-otlp-metrics", daemon=True)

    def start(self) -> None:
        """Begin to export."""
        if self._exports_spans:
            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        if self._exports_metrics:
            self._thread.start()

    def stop_metrics(self) -> None:
        """Export the metrics once more, while the store is open, as far as they are accepted within `STOP_SECONDS`."""
        self._is_stopping.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)
        self._is_over.set()
        self._exporter.shutdown()

    def stop_spans(self) -> None:
        """Export the spans that are left, as far as the endpoint accepts them within `STOP_SECONDS`."""
        flush = threading.Thread(target=self._provider.shutdown, name="rlvitals-otlp-spans", daemon=True)
        flush.start()
        flush.join(STOP_SECONDS)
        if flush.is_alive() or self._thread.is_alive():
            log.warning("the endpoint of OpenTelemetry did not accept the last spans and metrics; they are dropped")

    def span(self, name: str, attributes: Mapping[str, AttributeValue] | None = None, /) -> Span:
        """Return a span, which begins with its ``with`` block; `monitor_server.spans.OpenSpan`."""
        return _RecordedSpan(self._tracer, name, attributes)

    def requests(self, app: ASGIApp, *, prefix: str, direct: Collection[tuple[str, str]]) -> ASGIApp:
        """Return an application with a span around each request.

        Args:
            app: The application.
            prefix: Of the paths of included routers, whose routes do not have it.
            direct: The methods and paths that are served without a route.
        """
        return _TracedRequests(app, self._tracer, prefix=prefix, direct=direct)

    def _export_metrics(self) -> None:
        while not self._is_stopping.wait(self._interval):
            self._export_once()
        if not self._is_over.is_set():
            self._export_once()

    def _export_once(self) -> None:
        try:
            self._exporter.export(self._metrics.read())
        except Exception:
            log.exception("metrics could not be exported by OpenTelemetry, which is tried again")


class _RecordedSpan(Span):
    """A span that is exported."""

    __slots__ = ("_attributes", "_context", "_name", "_span", "_tracer")

    _span: trace.Span
    _context: AbstractContextManager[trace.Span]

    def __init__(self, tracer: trace.Tracer, name: str, attributes: Mapping[str, AttributeValue] | None) -> None:
        self._tracer, self._name, self._attributes = tracer, name, attributes

    def __enter__(self) -> Self:
        self._context = self._tracer.start_as_current_span(
            self._name, attributes=self._attributes, record_exception=False, set_status_on_exception=False
        )
        self._span = self._context.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self.set("error.type", kind.__name__)
            self._span.set_status(Status(StatusCode.ERROR))
        self._context.__exit__(kind, error, traceback)

    def set(self, name: str, value: AttributeValue) -> None:
        self._span.set_attribute(name, value)

    def fail(self, reason: str) -> None:
        self._span.set_status(Status(StatusCode.ERROR, reason))


class _TracedRequests:
    """Puts a span around each request, the child of the one that the client names (``traceparent``).

    Its attributes are the method, the route, the status and the request id. Path, query and headers may hold secrets,
    such as the tokens of signed links, and are left out.
    """

    def __init__(self, app: ASGIApp, tracer: trace.Tracer, *, prefix: str, direct: Collection[tuple[str, str]]) -> None:
        self._app = app
        self._tracer = tracer
        self._prefix = prefix
        self._direct = direct
        self._propagator = TraceContextTextMapPropagator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        parent = self._propagator.extract(_trace_headers(scope))
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        with self._tracer.start_as_current_span(
            method, parent, kind=SpanKind.SERVER, attributes={"http.request.method": method},
            record_exception=False, set_status_on_exception=False,
        ) as span:  # fmt: skip

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    _describe(span, message)
                await send(message)

            try:
                await self._app(scope, receive, sending)
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR))
                raise
            finally:
                route = self._route(scope)
                if route:
                    span.set_attribute("http.route", route)
                    span.update_name(f"{method} {route}")

    def _route(self, scope: Scope) -> str | None:
        """Return the path of the route that has served a request, with names in place of ids, or None."""
        path = scope["path"]
        if (scope["method"], path) in self._direct:
            return str(path)
        route = getattr(scope.get("route"), "path", None)
        is_included = route is not None and path.startswith(f"{self._prefix}/") and not route.startswith("/api/")
        return f"{self._prefix}{route}" if is_included else route


_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _trace_headers(scope: Scope) -> dict[str, str]:
    headers = [(name, value) for name, value in scope["headers"] if name in (b"traceparent", b"tracestate")]
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}


def _describe(span: trace.Span, message: Message) -> None:
    span.set_attribute("http.response.status_code", message["status"])
    if message["status"] >= SERVER_ERROR:
        span.set_status(Status(StatusCode.ERROR))
    for name, value in message.get("headers", ()):
        if name == HEADER:
            span.set_attribute("rlvitals.request_id", value.decode("latin-1"))


class _Metrics:
    """Reads the registry of Prometheus as OpenTelemetry's metrics, under the same names."""

    def __init__(self, registry: CollectorRegistry, resource: Resource) -> None:
        self._registry = registry
        self._resource = resource
        self._since = time.time_ns()  # the counters of this process began at 0 here

    def read(self) -> MetricsData:
        """Return all metrics as they are now."""
        now = time.time_ns()
        metrics = [Metric(each.name, each.documentation, each.unit, self._data(each, now)) for each in self._families()]
        scope = ScopeMetrics(InstrumentationScope(SCOPE), metrics, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def _families(self) -> Iterable[Family]:
        return (family for family in self._registry.collect() if family.samples)

    def _data(self, family: Family, now: int) -> Sum | Gauge | Histogram:
        cumulative = AggregationTemporality.CUMULATIVE
        if family.type == "histogram":
            return Histogram(self._histograms(family, now), cumulative)
        points = [
            NumberDataPoint(sample.labels, self._since, now, sample.value)
            for sample in family.samples
            if not sample.name.endswith("_created")
        ]
        return Sum(points, cumulative, is_monotonic=True) if family.type == "counter" else Gauge(points)

    def _histograms(self, family: Family, now: int) -> list[HistogramDataPoint]:
        """Return the points of a histogram: Prometheus counts below each bound, OpenTelemetry between two of them."""
        found: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name != "le"}
            point = found.setdefault(tuple(sorted(labels.items())), {"labels": labels, "buckets": []})
            if sample.name.endswith("_bucket"):
                point["buckets"].append((float(sample.labels["le"]), sample.value))
            elif sample.name.endswith("_sum"):
                point["sum"] = sample.value
        points = []
        unknown: Any = None  # Prometheus keeps neither the lowest nor the highest
        for point in found.values():
            bounds = [bound for bound, _ in point["buckets"]]
            below = [0.0, *(count for _, count in point["buckets"])]
            counts = [int(high - low) for low, high in itertools.pairwise(below)]
            points.append(
                HistogramDataPoint(
                    point["labels"], self._since, now, int(below[-1]), point["sum"], counts, bounds[:-1],
                    unknown, unknown,
                )
            )  # fmt: skip
        return points


def _resource() -> Resource:
    found = Resource.create()
    name = str(found.attributes.get(SERVICE_NAME, ""))
    own = {SERVICE_VERSION: version("rlvitals")}
    if name.startswith("unknown_service"):
        own[SERVICE_NAME] = "rlvitals"
    return found.merge(Resource(own))
