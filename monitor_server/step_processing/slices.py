"""Projects a slice of a run's log: records to steps, steps to findings, findings to alerts, phases and events.

One call projects one run and does a bounded amount of work. It computes on a snapshot of the store, while other threads
write. It then writes the position in the log, the state of the detectors and all results in one short transaction, so
that a crash repeats nothing and skips nothing. The transaction is only committed if the run has the revision that it
had in the snapshot. If another projector was faster, nothing is written.

The log is read batch by batch. The steps that are complete after a batch are completed before the next batch is read,
so the result depends only on the order of the log, and not on the ends of the slices. One fact is not in the log: if a
rank announces a larger world size than other ranks of its attempt, every incomplete step waits for that many ranks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from monitor_server.alerts.changes.lifecycle import Lifecycle
from monitor_server.alerts.changes.transitions import RecordTransitions, record_no_transitions
from monitor_server.alerts.liveness import is_clock_kind
from monitor_server.alerts.verdict import Verdict, read_verdict
from monitor_server.detection.protocol import RULE_PREFIX
from monitor_server.errors import ProjectedElsewhere
from monitor_server.rules.evaluation import RuleTracker
from monitor_server.settings import Settings
from monitor_server.step_processing.events import Event
from monitor_server.step_processing.log_entries import LogEntry, read_log
from monitor_server.step_processing.ownership import Ownership
from monitor_server.step_processing.quarantine import is_in_quarantine, quarantine
from monitor_server.step_processing.run_context import RunContext
from monitor_server.step_processing.run_memory.compacted_runs import CompactedRuns
from monitor_server.step_processing.run_memory.passed_alerts import PassedAlerts
from monitor_server.step_processing.run_memory.signal_positions import SignalPositions
from monitor_server.step_processing.status_changes import change_status, due_status
from monitor_server.step_processing.steps.budget import Budget
from monitor_server.step_processing.steps.completion import Completion, step_bounds
from monitor_server.step_processing.steps.detection import Tracker
from monitor_server.step_processing.steps.waiting import WaitingCache, WaitingSteps
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import StoredAcknowledgement
from monitor_server.store.repositories.detection import SavedState
from monitor_server.store.repositories.log.blocks import StoredRecord
from monitor_server.store.repositories.projection_queue import RunBehind
from monitor_server.store.repositories.rules import SavedRuleStates
from monitor_server.store.repositories.run_status import ENDED, run_status
from monitor_server.store.repositories.runs import Run
from trainer_hooks import wire

__all__ = ["Projection", "SliceResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Computed:
    """What a slice writes, if it has changes; the states of the detectors and of the rules are None if unchanged."""

    context: RunContext
    waiting: WaitingSteps
    has_changes: bool
    state: SavedState | None = None
    rule_states: SavedRuleStates | None = None


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
        self._completion = Completion(tracker, settings=settings, on_left_out=on_left_out)
        self._settings = settings
        self._clock = clock
        self._is_watched = is_watched
        self._give_way = give_way
        self._record_transitions = record_transitions
        self._positions = SignalPositions()
        self._waiting = WaitingCache(step_bounds(settings))
        self._compacted = CompactedRuns()
        self._passed = PassedAlerts()
        self._ownership = Ownership(owner, clock=clock)

    @property
    def rules(self) -> RuleTracker:
        """The evaluation of the user's own rules."""
        return self._tracker.rules

    @property
    def waiting_bytes(self) -> int:
        """The bytes of the records and ranks that are kept in memory until their steps are complete."""
        return self._waiting.kept_bytes

    @property
    def caches(self) -> dict[str, Callable[[], int]]:
        """Functions that return the number of entries of each cache."""
        return {
            "signal_positions": lambda: len(self._positions),
            "waiting_runs": lambda: len(self._waiting),
            "compacted_runs": lambda: len(self._compacted),
            "passed_alert_runs": lambda: len(self._passed),
            "owned_runs": lambda: len(self._ownership),
            "watched_runs": lambda: self._ownership.watched_runs,
            "late_runs": lambda: self._ownership.late_runs,
            "full_steps": lambda: self._completion.full_steps,
            "mended_runs": lambda: self._completion.mended_runs,
            "crowded_runs": lambda: self._completion.crowded_runs,
            "runs_behind": lambda: self._completion.runs_behind,
            "detector_runs": lambda: self._tracker.runs_in_memory,
            "rule_runs": lambda: self._tracker.rules.runs_in_memory,
        }

    def forget(self, run_id: str | None = None) -> None:
        """Drop a run, or all runs, from memory, because the store did not accept the change."""
        self._tracker.forget(run_id)
        self._completion.forget(run_id)
        self._waiting.forget(run_id)
        self._ownership.forget(run_id)
        self._positions.forget(run_id)

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
            status, revision = run_status(run, now=now, deadlines=self._settings.deadlines), run.revision
            is_blind = is_in_quarantine(run, now)
            computed = (
                self._observe_status(repositories, run, status, now=now)
                if is_blind
                else self._detect(repositories, run, status, now=now, most=1 if is_smallest else None)
            )
            if computed is None:
                return None
        context = computed.context
        if computed.has_changes:
            with store.write() as repositories:
                if not self._save(repositories, computed):
                    return None
            self._ownership.confirm(run)
        self._waiting.keep(run_id, computed.waiting, revision=run.revision)
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

    def _open_context(self, repositories: Repositories, run: Run, now: float) -> RunContext:
        return RunContext(
            repositories=repositories,
            run=run,
            alerts=Lifecycle(
                repositories.alerts.open(run.id),
                run.id,
                pending_steps=self._settings.pending_steps,
                keep_firing_steps=self._settings.keep_firing_steps,
            ),
            positions=self._positions.of(repositories, run),
            now=now,
            is_watched=self._is_watched(),
        )

    def _observe_status(self, repositories: Repositories, run: Run, status: str, *, now: float) -> _Computed | None:
        """Return the slice of a quarantined run, in which only its status changes, or None if it does not change."""
        if due_status(run, status, has_more=not run.is_projected) == run.announced:
            return None
        context = self._open_context(repositories, run, now)
        return _Computed(context=context, waiting=self._waiting.take(context), has_changes=True)

    def _detect(self, repositories: Repositories, run: Run, status: str, *, now: float, most: int | None) -> _Computed:
        """Return a slice of at most ``most`` steps; it ends the quarantine of the run."""
        position, had_ready_steps = run.position, run.has_ready_steps
        has_changes = run.quarantined_at is not None or status != run.announced
        run.quarantined_at = run.quarantine_reason = None
        context = self._open_context(repositories, run, now)
        waiting = self._waiting.take(context)
        run.has_ready_steps = not self._advance(context, waiting, most=most)
        self._compacted.compact(context)
        state = self._tracker.encode(context)
        has_changes = self._tick_rules(context, status) or has_changes
        rule_states = self._tracker.rules.encode(run, has_ended=status in ENDED)
        has_changes = has_changes or rule_states is not None or run.position != position or context.has_writes
        has_changes = has_changes or run.has_ready_steps != had_ready_steps
        return _Computed(
            context=context, waiting=waiting, has_changes=has_changes, state=state, rule_states=rule_states
        )

    def _advance(self, context: RunContext, waiting: WaitingSteps, *, most: int | None) -> bool:
        """Complete the waiting steps, then read the log; return whether all entries that were read are finished."""
        budget = Budget(give_way=self._give_way, most_steps=most)
        is_done = self._completion.complete(context, waiting, budget)
        entries = read_log(context, waiting, limit=most) if is_done else iter(())
        for position, entry in entries:
            before = context.run.position
            if not self._apply(context, waiting, position, entry, budget):
                # The next slice reads this entry again, and continues where this slice has ended.
                context.run.position = before
                return False
            is_done = self._completion.complete(context, waiting, budget)
            if not is_done or budget.is_spent:
                break
        else:  # the log may end behind its last entry, and only its end shows which ranks are missing
            is_done = self._completion.complete(context, waiting, budget)
        return is_done

    def _apply(
        self, context: RunContext, waiting: WaitingSteps, position: int, entry: LogEntry, budget: Budget
    ) -> bool:
        """Process one entry of the log, which ends at a position; return False if the budget was spent first."""
        run = context.run
        run.position = position
        if isinstance(entry, int):
            run.projected_attempt = max(run.projected_attempt, entry)
        elif isinstance(entry, StoredAcknowledgement):
            self._acknowledge(context, position, entry)
        else:
            # The waiting steps are saved, so they must not have records of an entry that is read again.
            if not self._completion.mend(context, waiting.find_late(entry), budget):
                return False
            waiting.add(entry, now=context.now)
            for stored in entry:
                _add_actions(context, stored)
        return True

    def _acknowledge(self, context: RunContext, position: int, given: StoredAcknowledgement) -> None:
        alert = context.repositories.alerts.find(given.alert_id)
        # An acknowledgement of an alert that was resolved meanwhile does not concern an alert that opened after it.
        is_unheard = is_clock_kind(given.kind) or context.alerts.has_other(given.kind, given.alert_id)
        seen = None if is_unheard else self._tracker.acknowledge(context, given.kind)
        if seen is not None:
            context.defer(_place_acknowledgement(context.run.id, position, *seen))
        if alert is not None:
            context.add_alerts([alert])

    def _save(self, repositories: Repositories, computed: _Computed) -> bool:
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
        status = due_status(run, run_status(run, now=context.now, deadlines=deadlines), has_more=has_more)
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

    def _end_kept(self, repositories: Repositories, computed: _Computed, status: str) -> None:
        """Resolve what was not found at the newest step of the detectors, which may be of an attempt before the last.

        Such a step waited for a rank until the next attempt began, and is not the run's last one.
        """
        if not self._settings.keep_firing_steps:
            return
        seen = computed.state or repositories.detector_states.load(computed.context.run.id)
        if seen is not None:
            context, why = computed.context, f"the run is {status}, and this was not found at its last step"
            context.add_alerts(context.alerts.end_kept(step=seen.step, why=why, now=context.now))

    def _tick_rules(self, context: RunContext, status: str) -> bool:
        """Update the rules of a run for the passed time; return whether that changes anything.

        Steps that wait to be projected may have a signal that a rule misses, so the time passes after them.
        """
        run, now = context.run, context.now
        if not run.is_projected:
            return False
        has_ended = status in ENDED
        findings = self._tracker.rules.tick(context.repositories, run, now=now, has_ended=has_ended)
        if findings is None:
            return False
        changed = context.alerts.reconcile(
            findings,
            phase=run.phase,
            step=run.last_step or 0,
            now=now,
            concerns=lambda kind: kind.startswith(RULE_PREFIX),
        )
        context.add_alerts(changed)
        return True


def _place_acknowledgement(run_id: str, position: int, attempt: int, step: int) -> Callable[[Repositories], None]:
    def write(repositories: Repositories) -> None:
        repositories.alerts.place_acknowledgement(run_id, position, attempt=attempt, step=step)

    return write


def _add_actions(context: RunContext, stored: StoredRecord) -> None:
    if b"actions" not in stored.body:
        return
    record = wire.decode_record(stored.body)
    if record.actions:
        context.add_actions(
            record.actions,
            attempt=stored.attempt,
            step=stored.step,
            rank=stored.rank,
            time=context.now if record.time is None else record.time,
        )
