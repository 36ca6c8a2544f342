"""Computes a slice of a run's log on a snapshot of the store: records to steps, steps to findings, findings to alerts.

The log is read batch by batch. The steps that are complete after a batch are completed before the next batch is read,
so the result depends only on the order of the log, and not on the ends of the slices. One fact is not in the log: if a
rank announces a larger world size than other ranks of its attempt, every incomplete step waits for that many ranks.
"""

from collections.abc import Callable
from dataclasses import dataclass

from monitor_server.alerts.changes.lifecycle import Lifecycle
from monitor_server.alerts.liveness import is_clock_kind
from monitor_server.detection.protocol import RULE_PREFIX
from monitor_server.settings import Settings
from monitor_server.step_processing.log_entries import LogEntry, read_log
from monitor_server.step_processing.run_context import RunContext
from monitor_server.step_processing.run_memory.compacted_runs import CompactedRuns
from monitor_server.step_processing.run_memory.signal_positions import SignalPositions
from monitor_server.step_processing.status_changes import due_status
from monitor_server.step_processing.steps.budget import Budget
from monitor_server.step_processing.steps.completion import Completion
from monitor_server.step_processing.steps.detection import Tracker
from monitor_server.step_processing.steps.late_records import LateRecords
from monitor_server.step_processing.steps.rank_merging import step_bounds
from monitor_server.step_processing.steps.waiting import WaitingCache, WaitingSteps
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.acknowledgements import StoredAcknowledgement
from monitor_server.store.repositories.detection import SavedState
from monitor_server.store.repositories.log.blocks import StoredRecord
from monitor_server.store.repositories.rules import SavedRuleStates
from monitor_server.store.repositories.run_status import ENDED
from monitor_server.store.repositories.runs import Run
from trainer_hooks import wire

__all__ = ["ComputedSlice", "SliceComputation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedSlice:
    """What a slice writes, if it has changes; the states of the detectors and of the rules are None if unchanged."""

    context: RunContext
    waiting: WaitingSteps
    has_changes: bool
    state: SavedState | None = None
    rule_states: SavedRuleStates | None = None


class SliceComputation:
    """Computes slices; it writes nothing. Its caches can be dropped at any time: the store has their content.

    Args:
        tracker: Detection.
        settings: Deadlines and limits.
        clock: Returns seconds since the epoch.
        is_watched: Whether a subscriber wants an event for each step.
        give_way: Called after each step, to let ingest go first.
        on_left_out: Called with the number of a step's records that exceed the bounds and are not merged.
    """

    def __init__(
        self,
        tracker: Tracker,
        *,
        settings: Settings,
        clock: Callable[[], float],
        is_watched: Callable[[], bool],
        give_way: Callable[[], None],
        on_left_out: Callable[[int], None],
    ) -> None:
        self._tracker = tracker
        self._late_records = LateRecords(settings, on_left_out=on_left_out)
        self._completion = Completion(tracker, self._late_records, settings=settings)
        self._settings = settings
        self._clock = clock
        self._is_watched = is_watched
        self._give_way = give_way
        self._positions = SignalPositions()
        self._waiting = WaitingCache(step_bounds(settings))
        self._compacted = CompactedRuns()

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
            "full_steps": lambda: self._late_records.full_steps,
            "mended_runs": lambda: self._late_records.mended_runs,
            "crowded_runs": lambda: self._completion.crowded_runs,
            "runs_behind": lambda: self._completion.runs_behind,
            "detector_runs": lambda: self._tracker.runs_in_memory,
            "rule_runs": lambda: self._tracker.rules.runs_in_memory,
        }

    def forget(self, run_id: str | None = None) -> None:
        """Drop a run, or all runs, from memory, because the store did not accept the change."""
        self._tracker.forget(run_id)
        self._completion.forget(run_id)
        self._late_records.forget(run_id)
        self._waiting.forget(run_id)
        self._positions.forget(run_id)

    def keep(self, computed: "ComputedSlice") -> None:
        """Keep the steps that still wait in memory, after the slice was saved."""
        run = computed.context.run
        self._waiting.keep(run.id, computed.waiting, revision=run.revision)

    def observe_status(self, repositories: Repositories, run: Run, status: str, *, now: float) -> ComputedSlice | None:
        """Return the slice of a quarantined run, in which only its status changes, or None if it does not change."""
        if due_status(run, status, has_more=not run.is_projected) == run.announced:
            return None
        context = self._open_context(repositories, run, now)
        return ComputedSlice(context=context, waiting=self._waiting.take(context), has_changes=True)

    def detect(
        self, repositories: Repositories, run: Run, status: str, *, now: float, most: int | None
    ) -> ComputedSlice:
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
        return ComputedSlice(
            context=context, waiting=waiting, has_changes=has_changes, state=state, rule_states=rule_states
        )

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
            if not self._late_records.mend(context, waiting.find_late(entry), budget):
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
        repositories.acknowledgements.place(run_id, position, attempt=attempt, step=step)

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
