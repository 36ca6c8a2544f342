"""What Prometheus scrapes: the live runs, read from the store at each scrape, and the collector's own counters.

The only place that knows prometheus_client. Runs are read, never kept, so a finished run's series go away by
themselves. No label carries a step, a token or a response; runs and signals are bounded by settings.
"""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from monitor_server.api.schemas import run_item
from monitor_server.detection.protocol import Phase
from monitor_server.settings import Settings
from monitor_server.store.database import Store

__all__ = ["CONTENT_TYPE", "CollectorRegistry", "Exposition"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class Exposition:
    """The metrics of one collector on its own registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._records = Counter("rlvitals_ingest_records", "Records stored", registry=registry)
        self._rejected = Counter("rlvitals_ingest_rejected", "Records refused", registry=registry)
        self._duplicates = Counter("rlvitals_ingest_duplicates", "Records seen before", registry=registry)
        self._bytes = Counter("rlvitals_ingest_bytes", "Bytes of ingest bodies as sent", registry=registry)
        self._ingest = Histogram(
            "rlvitals_ingest_seconds", "From body to commit of a batch", buckets=SECONDS, registry=registry
        )
        self._detection = Histogram(
            "rlvitals_detection_seconds", "All detectors on one step", buckets=SECONDS, registry=registry
        )

    def watch(self, store: Store, *, settings: Settings, clock: Callable[[], float]) -> None:
        """Show the runs of ``store`` at each scrape."""
        self._registry.register(_Runs(store, settings=settings, clock=clock))

    def ingested(self, *, records: int, rejected: int, duplicates: int, body_bytes: int, seconds: float) -> None:
        """Count one committed batch."""
        self._records.inc(records)
        self._rejected.inc(rejected)
        self._duplicates.inc(duplicates)
        self._bytes.inc(body_bytes)
        self._ingest.observe(seconds)

    def detected(self, seconds: float) -> None:
        """Count one step through all detectors."""
        self._detection.observe(seconds)

    def render(self) -> bytes:
        """Give everything in the text format."""
        return generate_latest(self._registry)


class _Runs(Collector):
    """Reads live runs from the store when scraped."""

    def __init__(self, store: Store, *, settings: Settings, clock: Callable[[], float]) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    def describe(self) -> Iterable[Metric]:
        """Say nothing on registration: asking would scrape."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Give the families of all live runs."""
        labels = ["run", "project"]
        phase = GaugeMetricFamily(
            "rlvitals_run_phase", "1 for the phase a run is in, else 0", labels=[*labels, "phase"]
        )
        signal = GaugeMetricFamily("rlvitals_signal", "Value at the newest step", labels=[*labels, "signal"])
        firing = GaugeMetricFamily(
            "rlvitals_alert_firing", "1 while an alert fires", labels=[*labels, "kind", "severity"]
        )
        last_step = GaugeMetricFamily(
            "rlvitals_run_last_step_timestamp_seconds", "When the newest step was complete here", labels=labels
        )
        step_seconds = GaugeMetricFamily("rlvitals_run_step_seconds", "Median time of a step", labels=labels)
        with self._store.read() as repositories:
            rows = repositories.runs.live(
                now=self._clock(), deadlines=self._settings.deadlines, limit=self._settings.exposed_runs
            )
            for row in rows:
                run, own = run_item(row), [row["name"], row["project"]]
                for each in Phase:
                    phase.add_metric([*own, str(each)], float(run.phase == each))
                for alert in repositories.alerts.firing(run.id):
                    firing.add_metric([*own, alert.kind, alert.severity], 1.0)
                if run.last_step is None:
                    continue
                last_step.add_metric(own, row["last_step_at"])
                if row["step_seconds"] is not None:
                    step_seconds.add_metric(own, row["step_seconds"])
                values = repositories.steps.at(run.id, run.last_step)
                for name, value in sorted(values.items())[: self._settings.exposed_signals]:
                    signal.add_metric([*own, name], value)
        return [phase, signal, firing, last_step, step_seconds]
