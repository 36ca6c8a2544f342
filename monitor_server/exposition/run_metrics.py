"""Metrics of the runs, read from the store at each scrape: phase, alerts, silence and the newest signals."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from monitor_server.alerts.collector_alerts import RUN_ID
from monitor_server.alerts.liveness import shown_phase
from monitor_server.detection.protocol import Phase
from monitor_server.errors import Unavailable
from monitor_server.settings import Settings
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from monitor_server.text_safety.printable import printable

__all__ = ["RunMetrics"]

# A trainer that stops because of an alert ends its run before the next scrape. Two minutes are enough for one scrape in
# each minute, and for rules that wait for two scrapes of 5 seconds. They begin again with each step that is processed
# after the end, because detection may be late.
ENDED_SECONDS: Final = 120.0


class RunMetrics(Collector):
    """Reads the live runs from the store at each scrape, and the alerts of the runs that have just ended."""

    def __init__(self, store: Store, *, settings: Settings, clock: Callable[[], float]) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        """Return the metric families of all exposed runs; none if the database does not answer."""
        try:
            return self._read()
        except Unavailable:
            return []

    def _read(self) -> Iterable[Metric]:
        families = _Families()
        now, most = self._clock(), self._settings.exposed_runs
        with self._store.read_if_connected() as repositories:
            families.clock.add_metric([], now)
            families.quarantined.add_metric([], len(repositories.projection_queue.quarantined_runs()))
            families.behind.add_metric([], repositories.projection_queue.unprojected_entries())
            families.waiting_steps.add_metric([], repositories.waiting.count())
            views, deadlines = repositories.run_views, self._settings.deadlines
            live = views.live(now=now, deadlines=deadlines, limit=most)
            ended = views.ended_since(now - ENDED_SECONDS, now=now, deadlines=deadlines, limit=most)
            # A limit of 0 means that no runs are wanted here, so none is missed.
            is_full = len(live) == most > 0
            left_out = views.count_live(now=now, deadlines=deadlines) - most if is_full else 0
            families.left_out.add_metric([], left_out)
            for row in live:
                families.add_alerts(repositories, row)
                self._add_run(families, repositories, row)
            for row in ended:
                if row["id"] != RUN_ID:  # its alerts have metrics of their own, and it has ended since it began
                    families.add_alerts(repositories, row)
        return vars(families).values()

    def _add_run(self, families: "_Families", repositories: Repositories, row: Mapping[str, Any]) -> None:
        """Add the metrics that only a live run has."""
        own = _labels(row)
        shown = shown_phase(row["status"], row["phase"], is_quarantined=row["quarantined_at"] is not None)
        for each in Phase:
            families.phase.add_metric([*own, str(each)], float(shown == each))
        if row["last_step"] is None:
            return
        families.last_step.add_metric(own, row["last_step_at"])
        families.stall.add_metric(own, row["stall_seconds"])
        if row["step_seconds"] is not None:
            families.step_seconds.add_metric(own, row["step_seconds"])
        values = repositories.steps.at(row["id"], row["last_step"])
        for name, value in sorted(values.items())[: self._settings.exposed_signals]:
            families.signal.add_metric([*own, printable(name)], value)


class _Families:
    """The metric families, which are filled run by run."""

    def __init__(self) -> None:
        labels = ["run", "project"]
        self.phase = GaugeMetricFamily(
            "rlvitals_run_phase", "1 for the current phase of a run, else 0", labels=[*labels, "phase"]
        )
        self.signal = GaugeMetricFamily("rlvitals_signal", "Value at the newest step", labels=[*labels, "signal"])
        self.firing = GaugeMetricFamily(
            "rlvitals_alert_firing",
            "1 while an alert fires, 0 while a silence covers it",
            labels=[*labels, "kind", "severity"],
        )
        self.stage = GaugeMetricFamily(
            "rlvitals_alert_stage",
            "1 for the current stage of an open alert",
            labels=[*labels, "kind", "severity", "stage"],
        )
        self.last_step = GaugeMetricFamily(
            "rlvitals_run_last_step_timestamp_seconds", "Time at which the newest step was complete", labels=labels
        )
        self.clock = GaugeMetricFamily(
            "rlvitals_clock_timestamp_seconds",
            "Time of the collector's clock, which does not follow a jump of the machine's clock",
        )
        self.stall = GaugeMetricFamily(
            "rlvitals_run_stall_seconds",
            "Time without a new step after which the run is stalled",
            labels=labels,
        )
        self.step_seconds = GaugeMetricFamily("rlvitals_run_step_seconds", "Median time of a step", labels=labels)
        self.left_out = GaugeMetricFamily(
            "rlvitals_left_out_runs", "Live runs that are not among these metrics, because there are too many"
        )
        self.quarantined = GaugeMetricFamily(
            "rlvitals_quarantined_runs", "Runs that cannot be processed: their records are stored only"
        )
        self.behind = GaugeMetricFamily(
            "rlvitals_unprojected_records", "Records that are stored and that no detector has seen yet"
        )
        self.waiting_steps = GaugeMetricFamily(
            "rlvitals_waiting_steps", "Steps that wait for other ranks, or until their deadline, or for their turn"
        )

    def add_alerts(self, repositories: Repositories, row: Mapping[str, Any]) -> None:
        """Add the open alerts of a run."""
        own = _labels(row)
        for alert in repositories.alerts.open(row["id"]):
            named = [*own, printable(alert.kind), alert.severity]
            self.stage.add_metric([*named, alert.stage], 1.0)
            if alert.state == "firing":
                self.firing.add_metric(named, float(alert.silence_id is None))


def _labels(row: Mapping[str, Any]) -> list[str]:
    return [printable(row["name"]), printable(row["project"])]
