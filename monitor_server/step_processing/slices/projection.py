"""Projects a slice of a run's log: records to steps, steps to findings, findings to alerts, phases and events.

One call projects one run and does a bounded amount of work. It computes on a snapshot of the store, while other threads
write. It then writes the position in the log, the state of the detectors and all results in one short transaction, so
that a crash repeats nothing and skips nothing. The transaction is only committed if the run has the revision that it
had in the snapshot. If another projector was faster, nothing is written.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from monitor_server.alerts.changes.transitions import RecordTransitions, record_no_transitions
from monitor_server.alerts.verdict import Verdict, read_verdict
from monitor_server.errors import ProjectedElsewhere
from monitor_server.rules.evaluation import RuleTracker
from monitor_server.settings import Settings
from monitor_server.step_processing.events import Event
from monitor_server.step_processing.ownership import Ownership
from monitor_server.step_processing.quarantine import is_in_quarantine, quarantine
from monitor_server.step_processing.run_memory.passed_alerts import PassedAlerts
from monitor_server.step_processing.slices.computation import ComputedSlice, SliceComputation
from monitor_server.step_processing.status_changes import REFUSED_SECONDS, change_status, due_status, held_status
from monitor_server.step_processing.steps.detection import Tracker
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.projection_queue import RunBehind
from monitor_server.store.repositories.run_status import run_status
from monitor_server.store.repositories.runs import Run

__all__ = ["Projection", "SliceResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceResult:
    """What a slice leads to: the position of the run in its log, and the events to publish after the commit."""

    position: int
    has_more: bool
    verdict: Verdict
    events: list[Event]


class Projection:
    """Projects runs, one slice at a time. Its caches can be dropped at any time: the store has their content.

    Args:
        tracker: Detection.
        settings: Deadlines and limits.
        clock: Returns seconds since the epoch.
        is_watched: Whether a subscriber wants an event for each step.
        give_way: Called after each step, to let ingest go first.
        on_left_out: Called with the number of a step's records that exceed the bounds and are not merged.
        owner: The name of this projector if several share the database; None if it is alone.
        record_transitions: Writes the notifications that are due about the transitions of alerts.
    """

    def __init__(
        self,
        tracker: Tracker,
        *,
        settings: Settings,
        clock: Callable[[], float],
        is_watched: Callable[[], bool] = lambda: True,
        give_way: Callable[[], None] = lambda: None,
        on_left_out: Callable[[int], None] = lambda _: None,
        owner: str | None = None,
        record_transitions: RecordTransitions = record_no_transitions,
    ) -> None:
        self._tracker = tracker
        self._computation = SliceComputation(
            tracker,
            settings=settings,
            clock=clock,
            is_watched=is_watched,
            give_way=give_way,
            on_left_out=on_left_out,
        )
        self._settings = settings
        self._clock = clock
        self._record_transitions = record_transitions
        self._passed = PassedAlerts()
        self._ownership = Ownership(owner, clock=clock)
        self._held_until = -math.inf

    @property
    def rules(self) -> RuleTracker:
        """The evaluation of the user's own rules."""
        return self._tracker.rules

    @property
    def waiting_bytes(self) -> int:
        """The bytes of the records and ranks that are kept in memory until their steps are complete."""
        return self._computation.waiting_bytes

    @property
    def caches(self) -> dict[str, Callable[[], int]]:
        """Functions that return the number of entries of each cache."""
        return self._computation.caches | {
            "passed_alert_runs": lambda: len(self._passed),
            "owned_runs": lambda: len(self._ownership),
            "watched_runs": lambda: self._ownership.watched_runs,
            "late_runs": lambda: self._ownership.late_runs,
        }

    @property
    def holds_statuses(self) -> bool:
        """Whether no run becomes stalled or lost now."""
        return self._clock() < self._held_until

    def hold_statuses(self) -> None:
        """Let no run become stalled or lost for a while, because the database refuses what trainers send, or just has.

        Their silence is ours: it ends when they have had the time to send again.
        """
        self._held_until = self._clock() + REFUSED_SECONDS

    def forget(self, run_id: str | None = None) -> None:
        """Drop a run, or all runs, from memory, because the store did not accept the change."""
        self._computation.forget(run_id)
        self._ownership.forget(run_id)

    def project(self, store: Store, run_id: str, *, is_smallest: bool = False) -> SliceResult | None:
        """Project a slice; return None if there is nothing to do, or if another projector owns the run.

        Of a quarantined run only the status changes: its trainer may die or end meanwhile.

        Args:
            store: The store.
            run_id: The run.
            is_smallest: Whether the slice has at most one step, and reads at most one batch.

        Raises:
            ProjectedElsewhere: If another projector has projected the run since the snapshot; nothing is written.
            Unavailable: If the store cannot be read or written.
        """
        if not self._ownership.claim(store, run_id):
            return None
        with store.read() as repositories:
            run, now = repositories.runs.find(run_id), self._clock()
            if run is None:
                return None
            if self._ownership.is_taken(run):
                self.forget(run_id)
                return None
            status, revision = self._status(run, now=now), run.revision
            is_blind = is_in_quarantine(run, now)
            computed = (
                self._computation.observe_status(repositories, run, status, now=now)
                if is_blind
                else self._computation.detect(repositories, run, status, now=now, most=1 if is_smallest else None)
            )
            if computed is None:
                return None
        context = computed.context
        if computed.has_changes:
            with store.write() as repositories:
                if not self._save(repositories, computed):
                    return None
            self._ownership.confirm(run)
        self._computation.keep(computed)
        is_resolved = any(each.change == "resolved" for each in context.alerts.transitions)
        passed = self._passed.after_slice(store, run, revision=revision, is_changed=is_resolved, now=context.now)
        return SliceResult(
            position=run.position,
            has_more=not run.is_projected and not is_blind,
            verdict=read_verdict(run, context.alerts.firing, passed),
            events=context.events,
        )

    def quarantine(self, repositories: Repositories, run_id: str, error: Exception) -> list[Event]:
        """Quarantine a run that cannot be projected, and return the events to publish after the commit."""
        return quarantine(
            repositories, run_id, error, now=self._clock(), deadlines=self._settings.deadlines,
            record_transitions=self._record_transitions,
        )  # fmt: skip

    def share(self, store: Store, behind: Sequence[RunBehind], *, is_idle: bool) -> int:
        """Keep the own runs that wait, and take late ones if idle; return their number (`Ownership.share`)."""
        return self._ownership.share(store, behind, is_idle=is_idle)

    def release(self, repositories: Repositories) -> None:
        """Release all runs of this projector, so that others can take them."""
        self._ownership.release(repositories)

    def _save(self, repositories: Repositories, computed: ComputedSlice) -> bool:
        """Write a slice; return False if the run was deleted meanwhile."""
        context, deadlines = computed.context, self._settings.deadlines
        run = context.run
        stored = repositories.runs.lock(run.id)
        if stored is None:
            self.forget(run.id)
            return False
        if stored.revision != run.revision:
            raise ProjectedElsewhere(
                f"another process has projected, reset or thinned run {run.id} in the meantime; the run is read again"
            )
        has_more = not run.is_projected  # of the log as it was read: the trainer may send all the time
        run.take_ingested(stored)
        self._ownership.prolong(run, stored)
        context.write(repositories)
        computed.waiting.save(repositories)
        status = due_status(run, self._status(run, now=context.now), has_more=has_more)
        is_changed = status != run.announced
        # What arrived since the log was read is for the next slice, and may be found again.
        if status != "running" and run.is_projected and not computed.waiting:
            self._end_kept(repositories, computed, status)
        if is_changed:
            change_status(context, status, deadlines=deadlines)
        context.alerts.save(repositories, now=context.now)
        context.show_saved_alerts()
        self._record_transitions(repositories, run, context.alerts.transitions)
        self._tracker.save(repositories, run, computed.state)
        self._tracker.rules.save(repositories, run, computed.rule_states)
        repositories.runs.save_projection(run)
        if is_changed or stored.quarantined_at is not None:  # readers see another status or phase
            context.add_run(repositories, deadlines)
        return True

    def _status(self, run: Run, *, now: float) -> str:
        status = run_status(run, now=now, deadlines=self._settings.deadlines)
        return held_status(run, status) if self.holds_statuses else status

    def _end_kept(self, repositories: Repositories, computed: ComputedSlice, status: str) -> None:
        """Resolve what was not found at the newest step of the detectors, which may be of an attempt before the last.

        Such a step waited for a rank until the next attempt began, and is not the run's last one.
        """
        if not self._settings.keep_firing_steps:
            return
        seen = computed.state or repositories.detector_states.load(computed.context.run.id)
        if seen is not None:
            context, why = computed.context, f"the run is {status}, and this was not found at its last step"
            context.add_alerts(context.alerts.end_kept(step=seen.step, why=why, now=context.now))
