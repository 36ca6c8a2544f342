"""Applies silences to the firing alerts when a silence begins or ends; `lifecycle` applies them to alerts that open."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from monitor_server.alerts.changes.stages import Change, advance
from monitor_server.alerts.changes.transitions import AlertTransition, RecordTransitions, record_no_transitions
from monitor_server.instrumentation.failure_log import FailureLog
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alert_history import HistoryEntry
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.runs import Run
from monitor_server.store.repositories.silences import Silence

__all__ = ["AppliedSilences", "Silencing"]

# One alert takes about ten statements, so a slice takes some tens of milliseconds.
ALERTS_PER_SLICE = 100


@dataclass(frozen=True, slots=True)
class AppliedSilences:
    """The changes of one slice.

    Attributes:
        changed: The alerts with their runs.
        has_more: Whether there may be more to change.
        open_kinds: The kinds of all alerts that fire on each of these runs, by the run's id.
    """

    changed: list[tuple[Run, Alert]]
    has_more: bool
    open_kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Silencing:
    """Begins and ends silences.

    Args:
        store: The database.
        clock: Returns seconds since the epoch.
        on_changed: Called after a commit in which alerts were changed.
        releases: Whether alerts fire here when their silence ends. A process that does not notify may not know the
            channels, so it leaves them silenced until the next tick of a process that does.
        record_transitions: Writes the notifications about alerts that fire when their silence ends.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float],
        on_changed: Callable[[AppliedSilences], None],
        releases: bool = True,
        record_transitions: RecordTransitions = record_no_transitions,
    ) -> None:
        self._store = store
        self._clock = clock
        self._releases = releases
        self._record_transitions = record_transitions
        self._on_changed = on_changed
        self._failures = FailureLog(
            says="silences could not be applied, which is tried again", work="checks of silences"
        )

    def tick(self) -> None:
        """Apply the silences that begin or end now."""
        try:
            with self._store.read() as repositories:
                is_due = repositories.silences.has_due(now=self._clock())
            while is_due:
                with self._store.write() as repositories:
                    applied = self.apply(repositories)
                self.report(applied)
                is_due = applied.has_more
        except Exception as error:  # noqa: BLE001 - it is logged, and the other periodic work continues
            self._failures.note_failure(error)
        else:
            self._failures.note_success()

    def report(self, applied: AppliedSilences) -> None:
        """Report the changes of a slice after the commit."""
        if applied.changed:
            self._on_changed(applied)

    def apply(self, repositories: Repositories) -> AppliedSilences:
        """Apply the silences in force to a bounded number of alerts, in an open transaction."""
        now = self._clock()
        silences = repositories.silences
        silences.end_due(now=now)
        changed: list[tuple[Run, Alert]] = []
        released = silences.released_alerts(limit=ALERTS_PER_SLICE) if self._releases else []
        has_more = len(released) == ALERTS_PER_SLICE
        # Each alert is checked again once its run is locked: meanwhile a step may have raised it, and another collector
        # may have done the same.
        for run, alerts in _lock_runs(repositories, released):
            still = [alert for alert in alerts if _is_released(repositories, alert)]
            changed += [(run, self._release(repositories, run, alert, now)) for alert in still]
        for silence in silences.unapplied(now=now):
            covered = silences.covered_alerts(silence, limit=ALERTS_PER_SLICE)
            for run, alerts in _lock_runs(repositories, covered):
                still = [alert for alert in alerts if alert.silence_id is None and silence.covers(alert)]
                changed += [(run, _silence(repositories, silence, alert, now)) for alert in still]
            if len(covered) == ALERTS_PER_SLICE:
                has_more = True
                break
            silences.mark_applied(silence.id, now=now)
        return AppliedSilences(changed, has_more, repositories.alerts.firing_kinds({run.id for run, _ in changed}))

    def _release(self, repositories: Repositories, run: Run, alert: Alert, now: float) -> Alert:
        """End the silence of an alert, or continue it with another one that covers the alert as well."""
        others = repositories.silences.of_run(run.id, now=now)
        other = next((silence for silence in others if silence.covers(alert)), None)
        if other is not None:
            return _silence(repositories, other, alert, now)
        ended = repositories.silences.find(alert.silence_id or "")
        by = None if ended is None else ended.ended_by
        fires = advance(alert, Change.SILENCE_ENDED, silence_id=None, silenced_until=None)
        repositories.alerts.save(fires)
        why = "its time is over" if by is None else "somebody has ended it"
        repositories.alert_history.add(fires, HistoryEntry(at=now, change=Change.SILENCE_ENDED, by=by, why=why))
        if fires.state == "firing" and fires.acknowledged_at is None:
            # Recipients who were notified of this severity before the silence are not notified again. A message that
            # was given up has notified nobody.
            repositories.notification_events.remove_given_up(run.id, alert.id, severity=fires.severity)
            is_raised = fires.severity_step != fires.opened_step
            transition = AlertTransition(change="raised" if is_raised else "opened", alert=fires, at=now)
            self._record_transitions(repositories, run, [transition])
        return fires


def _is_released(repositories: Repositories, alert: Alert) -> bool:
    """Whether the silence of an alert has ended, or was deleted."""
    if alert.silence_id is None:
        return False
    silence = repositories.silences.find(alert.silence_id)
    return silence is None or silence.ended_at is not None


def _silence(repositories: Repositories, silence: Silence, alert: Alert, now: float) -> Alert:
    silenced = advance(alert, Change.SILENCED, silence_id=silence.id, silenced_until=silence.ends_at)
    repositories.alerts.save(silenced)
    entry = HistoryEntry(at=now, change=Change.SILENCED, by=silence.created_by, why=silence.reason)
    repositories.alert_history.add(silenced, entry)
    repositories.notification_events.remove_waiting(alert.run_id, alert.id)
    return silenced


def _lock_runs(repositories: Repositories, alerts: Sequence[Alert]) -> list[tuple[Run, list[Alert]]]:
    """Lock the runs of alerts, and return each with the current state of its alerts; alerts that ended are left out."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for alert in alerts:
        wanted[alert.run_id].add(alert.id)
    found = []
    for run_id in sorted(wanted):
        run = repositories.runs.lock(run_id)
        if run is not None:
            found.append((run, [alert for alert in repositories.alerts.open(run_id) if alert.id in wanted[run_id]]))
    return found
