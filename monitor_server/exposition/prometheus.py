"""The metrics that Prometheus scrapes: the live runs, read from the store at each scrape, and the collector's counters.

Runs are read at each scrape and not kept, so the series of a finished run disappear. No label contains a step, a token
or a response; settings limit the number of runs and signals.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from monitor_server.exposition.channel_and_disk_metrics import Channels, DatabaseFaults, DiskAndKeys
from monitor_server.exposition.refused_batches import RefusedBatches
from monitor_server.exposition.run_metrics import RunMetrics
from monitor_server.exposition.sdk_versions import SdkVersions
from monitor_server.notifications.configuration.tables import NotificationFile
from monitor_server.settings import Settings
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories

__all__ = ["CONTENT_TYPE", "CollectorRegistry", "Exposition"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class Exposition:
    """The metrics of one collector on its own registry.

    Attributes:
        sdk_versions: Counts batches for the metrics and for the API.
        refused_batches: Counts refused batches for the metrics and for the API.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.sdk_versions = SdkVersions()
        registry.register(_SdkVersions(self.sdk_versions))
        self.refused_batches = RefusedBatches()
        registry.register(self.refused_batches)
        self._records = Counter("rlvitals_ingest_records", "Records stored", registry=registry)
        self._rejected = Counter("rlvitals_ingest_rejected", "Records refused", registry=registry)
        self._duplicates = Counter("rlvitals_ingest_duplicates", "Records that were stored before", registry=registry)
        self._left_out_signals = Counter(
            "rlvitals_ingest_left_out_signals",
            "Scalars and summaries of stored records that were left out, because their run has too many signals",
            registry=registry,
        )
        self._bytes = Counter("rlvitals_ingest_bytes", "Bytes of ingest bodies as sent", registry=registry)
        self._ingest = Histogram(
            "rlvitals_ingest_seconds", "Time from the body of a batch to its commit", buckets=SECONDS, registry=registry
        )
        self._detection = Histogram(
            "rlvitals_detection_seconds", "Time of all detectors for one step", buckets=SECONDS, registry=registry
        )
        self._left_out = Counter(
            "rlvitals_projector_left_out_records",
            "Records that are stored and not merged, because their step has too many records",
            registry=registry,
        )
        self._queued_runs = Gauge(
            "rlvitals_projector_queued_runs", "Runs that wait for their turn to be projected", registry=registry
        )
        self._waiting_batches = Gauge("rlvitals_waiting_batches", "Batches that wait for the writer", registry=registry)
        self._waiting_bytes = Gauge(
            "rlvitals_waiting_batch_bytes", "Bytes of the batches that wait for the writer", registry=registry
        )
        self._waiters = Gauge(
            "rlvitals_projector_waiters", "Receipts that wait for the verdict on their batch", registry=registry
        )
        self._record_bytes = Gauge(
            "rlvitals_projector_record_bytes",
            "Bytes of the records that are kept in memory until their steps are complete",
            registry=registry,
        )
        self._cached = Gauge(
            "rlvitals_cached_entries",
            "Entries of a cache in memory; each cache has a limit",
            ["cache"],
            registry=registry,
        )
        self._requests = Gauge(
            "rlvitals_requests_under_way",
            "Requests that are answered or wait for their turn, of each kind whose number has a limit",
            ["kind"],
            registry=registry,
        )
        self._held = Gauge(
            "rlvitals_held_bytes",
            "Bytes of the bodies that are being received, and of the answers that their clients have not read",
            ["of"],
            registry=registry,
        )
        self._connections = Gauge("rlvitals_open_connections", "Open connections of clients", registry=registry)
        self._removed = Counter(
            "rlvitals_removed_rows", "Rows that retention and deletion removed", ["table"], registry=registry
        )

        self._notified = Counter(
            "rlvitals_notification_attempts",
            "Attempts to deliver a message: sent, failed and tried again, or given up",
            ["channel", "result"],
            registry=registry,
        )

        self._relayed = Counter(
            "rlvitals_relayed_events",
            "Live events that were sent to other collectors, received from them, or dropped before they could be sent",
            ["direction"],
            registry=registry,
        )
        for direction in ("sent", "received", "dropped"):
            self._relayed.labels(direction)

    def watch(self, store: Store, *, settings: Settings, clock: Callable[[], float]) -> None:
        """Read the runs of ``store`` at each scrape from now on."""
        self._registry.register(RunMetrics(store, settings=settings, clock=clock))
        self._registry.register(DiskAndKeys(store, clock=clock))
        self._registry.register(DatabaseFaults(store))

    def watch_notifications(
        self,
        store: Store,
        *,
        file: Callable[[], NotificationFile],
        failing: Callable[[Repositories], Collection[str]],
        clock: Callable[[], float],
    ) -> None:
        """Read the waiting events of each channel of the file in force at each scrape from now on."""

        def file_in_force() -> NotificationFile:
            current = file()
            for name in current.channels:
                for result in ("sent", "failed", "given_up"):
                    self._notified.labels(name, result)  # a zero makes the first failure an increase
            return current

        file_in_force()
        self._registry.register(Channels(store, file=file_in_force, failing=failing, clock=clock))

    def watch_removals(self, tables: Iterable[str]) -> None:
        """Expose a zero for each table, so that the first removed rows are an increase."""
        for table in tables:
            self._removed.labels(table)

    def watch_writer(self, *, batches: Callable[[], int], waiting_bytes: Callable[[], int]) -> None:
        """Read the queue of the writer at each scrape from now on."""
        self._waiting_batches.set_function(batches)
        self._waiting_bytes.set_function(waiting_bytes)

    def watch_projector(
        self, *, queued_runs: Callable[[], int], waiters: Callable[[], int], record_bytes: Callable[[], int]
    ) -> None:
        """Read the queues of the projector, and the bytes of records in its memory, at each scrape from now on."""
        self._record_bytes.set_function(record_bytes)
        self._queued_runs.set_function(queued_runs)
        self._waiters.set_function(waiters)

    def watch_caches(self, sizes: Mapping[str, Callable[[], int]]) -> None:
        """Read the sizes of caches, by their names, at each scrape from now on."""
        for name, size in sizes.items():
            self._cached.labels(name).set_function(size)

    def watch_requests(self, counts: Mapping[str, Callable[[], int]]) -> None:
        """Read the numbers of requests of limited kinds, by their names, at each scrape from now on."""
        for kind, count in counts.items():
            self._requests.labels(kind).set_function(count)

    def watch_bodies(self, held_bytes: Callable[[], int]) -> None:
        """Read the bytes of bodies that are being received at each scrape from now on."""
        self._held.labels("bodies").set_function(held_bytes)

    def watch_connections(self, *, count: Callable[[], int], unread_bytes: Callable[[], int]) -> None:
        """Read the number of connections, and the bytes that clients have not read, at each scrape from now on."""
        self._connections.set_function(count)
        self._held.labels("answers").set_function(unread_bytes)

    def count_batch(
        self, *, records: int, rejected: int, duplicates: int, left_out: int, body_bytes: int, seconds: float
    ) -> None:
        """Count one committed batch."""
        self._bytes.inc(body_bytes)
        for counter, count in (
            (self._records, records),
            (self._rejected, rejected),
            (self._duplicates, duplicates),
            (self._left_out_signals, left_out),
        ):
            if count:  # usually only one of the four
                counter.inc(count)
        self._ingest.observe(seconds)

    def count_detection(self, seconds: float) -> None:
        """Count one step that went through all detectors."""
        self._detection.observe(seconds)

    def count_left_out(self, records: int) -> None:
        """Count records of a step that exceed the bounds of its merge."""
        self._left_out.inc(records)

    def count_relayed(self, direction: str, events: int) -> None:
        """Count live events that were ``sent`` to other collectors, ``received`` from them, or ``dropped``."""
        self._relayed.labels(direction).inc(events)

    def count_delivery(self, channel: str, result: str) -> None:
        """Count an attempt to deliver a message."""
        self._notified.labels(channel, result).inc()

    def count_removed(self, table: str, rows: int) -> None:
        """Count rows that were removed from a table of the store."""
        self._removed.labels(table).inc(rows)

    def render(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class _SdkVersions(Collector):
    """Reads the counts of batches by version at each scrape."""

    def __init__(self, versions: SdkVersions) -> None:
        self._versions = versions

    def collect(self) -> Iterable[Metric]:
        """Return one counter for each version."""
        batches = CounterMetricFamily(
            "rlvitals_ingest_batches",
            "Batches of each version of the SDK; the version is empty for other clients",
            labels=["sdk"],
        )
        for version, count in sorted(self._versions.counts().items()):
            batches.add_metric([version], count)
        return [batches]
