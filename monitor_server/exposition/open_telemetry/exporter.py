"""Traces and metrics by OpenTelemetry's protocol (OTLP over HTTP), if RLVITALS_OPENTELEMETRY enables them.

The standard variables OTEL_* of OpenTelemetry's SDK set the endpoint and the details of the export. The SDK is the
extra ``otel``; this module is imported only when the setting is on. The SDK's own thread exports spans, and a thread
here exports metrics. The collector waits for neither: data that an endpoint does not accept in time is dropped, and a
stop waits at most `STOP_SECONDS`.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from importlib.metadata import version
from typing import Final

from opentelemetry.environment_variables import OTEL_METRICS_EXPORTER, OTEL_TRACES_EXPORTER
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_METRIC_EXPORT_INTERVAL, OTEL_SDK_DISABLED
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from monitor_server.exposition.open_telemetry.metrics import SCOPE, RegistryMetrics
from monitor_server.exposition.open_telemetry.spans import RecordedSpan, TracedRequests
from monitor_server.exposition.open_telemetry.variables import METRIC_INTERVAL_MS, check_variables
from monitor_server.instrumentation.spans import AttributeValue, Span

__all__ = ["Otlp"]

log = logging.getLogger(__name__)

STOP_SECONDS: Final = 2.0  # a supervisor kills a process that takes too long to stop


class Otlp:
    """Records and exports the spans of one collector, and exports the metrics of its registry."""

    def __init__(self, registry: CollectorRegistry, *, variable: Callable[[str], str | None]) -> None:
        """Prepare the exporters with the addresses from the environment.

        Args:
            registry: The metrics of Prometheus; the same metrics are exported.
            variable: Returns an environment variable.

        Raises:
            StartupError: If a variable OTEL_* cannot be used.
        """
        check_variables(variable)
        resource = _resource()
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._tracer = self._provider.get_tracer(SCOPE)
        self._metrics = RegistryMetrics(registry, resource)
        self._interval = int((variable(OTEL_METRIC_EXPORT_INTERVAL) or "").strip() or METRIC_INTERVAL_MS) / 1000.0
        self._exporter = OTLPMetricExporter()
        chosen = {
            name: (variable(name) or "").strip().lower()
            for name in (OTEL_SDK_DISABLED, OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER)
        }
        is_enabled = chosen[OTEL_SDK_DISABLED] != "true"
        self._exports_spans = is_enabled and chosen[OTEL_TRACES_EXPORTER] != "none"
        self._exports_metrics = is_enabled and chosen[OTEL_METRICS_EXPORTER] != "none"
        self._is_stopping, self._is_over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._export_metrics, name="rlvitals-otlp-metrics", daemon=True)

    def start(self) -> None:
        """Begin to export."""
        if self._exports_spans:
            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        if self._exports_metrics:
            self._thread.start()

    def stop_metrics(self) -> None:
        """Export the metrics once more, while the store is open, for at most `STOP_SECONDS`."""
        self._is_stopping.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)
        self._is_over.set()
        self._exporter.shutdown()

    def stop_spans(self) -> None:
        """Export the remaining spans, for at most `STOP_SECONDS`."""
        flush = threading.Thread(target=self._provider.shutdown, name="rlvitals-otlp-spans", daemon=True)
        flush.start()
        flush.join(STOP_SECONDS)
        if flush.is_alive() or self._thread.is_alive():
            log.warning("the endpoint of OpenTelemetry did not accept the last spans and metrics; they are dropped")

    def span(self, name: str, attributes: Mapping[str, AttributeValue] | None = None, /) -> Span:
        """Return a span, which begins with its ``with`` block; see `monitor_server.instrumentation.spans.OpenSpan`."""
        return RecordedSpan(self._tracer, name, attributes)

    def requests(self, app: ASGIApp, *, prefix: str, direct: Collection[tuple[str, str]]) -> ASGIApp:
        """Return an application with a span around each request.

        Args:
            app: The application.
            prefix: The prefix of included routers' paths, which their routes lack.
            direct: The methods and paths that are served without a route.
        """
        return TracedRequests(app, self._tracer, prefix=prefix, direct=direct)

    def _export_metrics(self) -> None:
        while not self._is_stopping.wait(self._interval):
            self._export_once()
        if not self._is_over.is_set():
            self._export_once()

    def _export_once(self) -> None:
        try:
            self._exporter.export(self._metrics.read())
        except Exception:
            log.exception("metrics could not be exported by OpenTelemetry; it is tried again")


def _resource() -> Resource:
    found = Resource.create()
    is_named = not str(found.attributes.get(SERVICE_NAME, "")).startswith("unknown_service")
    given = Resource({SERVICE_VERSION: version("rlvitals")}).merge(found)
    return given if is_named else given.merge(Resource({SERVICE_NAME: "rlvitals"}))
