"""The alerts that a collector would have opened in a run, by the detectors of this version."""

from collections.abc import Iterable
from dataclasses import asdict

from monitor_server.alerts.changes.lifecycle import Lifecycle
from monitor_server.alerts.changes.stages import was_taken_back
from monitor_server.commands.collector.reassess.alarm_comparison import Alarms, CriticalAlert, page_episodes
from monitor_server.detection.protocol import Observation, Severity
from monitor_server.step_processing.steps.detection import DetectionEngine
from monitor_server.store.repositories.alerts import Alert

__all__ = ["replay_alarms"]


def replay_alarms(steps: Iterable[Observation], engine: DetectionEngine) -> Alarms:
    """Run detectors on a run, and return their alarms as those that a collector has recorded are counted.

    An alert keeps its severity until it is resolved, so a finding that is critical again in an open alert is no other
    page, and a rewind resolves an alert that rests on replaced steps.

    Args:
        steps: The steps in the order of the log.
        engine: Fresh detectors.
    """
    lifecycle = Lifecycle((), "")
    last: tuple[int, int] | None = None
    for observation in steps:
        position = (observation.attempt, observation.step)
        if last is not None and position <= last:
            continue
        assessment = engine.update(observation)
        lifecycle.reconcile(
            assessment.findings,
            phase=assessment.phase,
            step=observation.step,
            now=observation.time or 0.0,
            concerns=lambda _: True,
            rewinds=last is None or observation.step <= last[1],
        )
        last = position
    alerts = lifecycle.unsaved
    critical = [_critical(alert) for alert in alerts if alert.severity == Severity.CRITICAL]
    return Alarms(pages=page_episodes(critical), is_warned=any(alert.severity != Severity.INFO for alert in alerts))


def _critical(alert: Alert) -> CriticalAlert:
    return CriticalAlert.of_item(asdict(alert) | {"is_taken_back": was_taken_back(alert)})
