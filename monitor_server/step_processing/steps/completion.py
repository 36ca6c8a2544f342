"""Decides which steps are complete, merges their ranks, and passes them to detection, in order, once.

A step is complete when all ranks of its attempt have reported it, when its deadline has passed, when a newer attempt
has begun, or when too many steps of its run wait. Its deadline counts only what has been read: a rank whose record is
in the log is not missing, however long the projector was stopped. A step that waits holds back the later ones, so that
detection processes steps in order. A record for a step that is already complete corrects the stored step; detection
does not process the step again.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from monitor_server.detection.protocol import SEEN_SHARE
from monitor_server.durations import DAY_SECONDS
from monitor_server.settings import Settings
from monitor_server.step_processing.run_context import Key, RunContext
from monitor_server.step_processing.steps.budget import Budget
from monitor_server.step_processing.steps.detection import Tracker
from monitor_server.step_processing.steps.rank_merging import merge_records
from monitor_server.step_processing.steps.read_times import ReadTimes
from monitor_server.step_processing.steps.stray_numbers import is_stray, was_stray
from monitor_server.step_processing.steps.waiting import WaitingSteps
from monitor_server.store.repositories.log.step_records import StepBounds, StoredStep
from monitor_server.store.repositories.recent_steps import SPARKLINE_SIGNAL, Recent
from monitor_server.store.repositories.steps import Step
from trainer_hooks import wire

__all__ = ["Completion", "step_bounds"]

log = logging.getLogger(__name__)

# For steps that are merged again; a record has up to about 30 KB.
RECORDS_READ_AT_ONCE = 256
# The clocks of trainer and collector may differ by a day; a larger difference is not accepted.
CLOCKS_DIFFER_SECONDS = DAY_SECONDS
MAX_FULL_STEPS = 4_096  # the steps whose end is remembered, so that their late records are not looked up


def step_bounds(settings: Settings) -> StepBounds:
    """Return the bounds that the settings place on the merge of one step."""
    return StepBounds(records=settings.max_step_records, body_bytes=settings.max_step_bytes)


class Completion:
    """Completes the steps of runs, and merges complete steps again with their late records.

    Args:
        tracker: Detection.
        settings: Deadlines and limits.
        on_left_out: Called with the number of a step's records that exceed the bounds and are not merged.
    """

    def __init__(
        self, tracker: Tracker, *, settings: Settings, on_left_out: Callable[[int], None] = lambda _: None
    ) -> None:
        self._tracker = tracker
        self._settings = settings
        self._bounds = step_bounds(settings)
        self._on_left_out = on_left_out
        # For steps beyond the bounds: the log position up to which records are merged.
        self._ends: OrderedDict[tuple[str, Key], int] = OrderedDict()
        self._mended: OrderedDict[str, tuple[int, set[Key]]] = OrderedDict()
        self._crowded: set[str] = set()
        self._read_times = ReadTimes()

    @property
    def full_steps(self) -> int:
        """The number of steps beyond the bounds whose merged records are remembered."""
        return len(self._ends)

    @property
    def crowded_runs(self) -> int:
        """The number of runs of which too many steps wait, at most `MAX_FULL_STEPS`."""
        return len(self._crowded)

    @property
    def runs_behind(self) -> int:
        """The number of runs with an overdue step whose logs are not read to their ends; it is bounded."""
        return len(self._read_times)

    @property
    def mended_runs(self) -> int:
        """The number of runs whose mended steps are remembered, at most `MAX_FULL_STEPS`."""
        return len(self._mended)

    def forget(self, run_id: str | None = None) -> None:
        """Drop a run, or all runs, from memory, because the store did not accept the change."""
        self._ends.clear()
        self._read_times.forget(run_id)
        if run_id is None:
            self._mended.clear()
        else:
            self._mended.pop(run_id, None)

    def complete(self, context: RunContext, waiting: WaitingSteps, budget: Budget) -> bool:
        """Complete the steps that are ready; return False if the budget was spent before that."""
        has_completed = False
        is_done = True
        while (first := waiting.first()) is not None:
            key, since = first
            if not self._is_ready(context, waiting, key, since=since):
                break
            if budget.is_spent:
                is_done = False
                break
            records = waiting.records(key)
            ranks = _known_world_size(context, key[0])
            step = records.merge(step=key[1], attempt=key[0], now=context.now, world_size=ranks)
            budget.spend(records=len(records))
            self._report_left_out(context, key, records.left_out)
            self._ends.pop((context.run.id, key), None)
            waiting.remove_first()
            self._advance(context, step)
            context.completed[key] = step
            has_completed = True
        if has_completed:
            self._save_pace(context)
        return is_done

    def mend(self, context: RunContext, late: Mapping[Key, Sequence[int]], budget: Budget) -> bool:
        """Merge complete steps again, with their late records; return False if the budget was spent first.

        Steps that were merged by then are not merged again when the same records are passed again.

        Args:
            context: The run, at the position up to which records are merged.
            late: The positions of the late records of each step.
            budget: The budget of the slice.
        """
        if not late:
            return True
        mended = self._find_mended(context.run.id, context.run.position)
        by_attempt: dict[int, list[int]] = {}
        for key in sorted(late.keys() - mended):
            if min(late[key]) > self._ends.get((context.run.id, key), max(late[key])):
                self._report_left_out(context, key, len(late[key]))
                mended.add(key)
            else:
                by_attempt.setdefault(key[0], []).append(key[1])
        for attempt, steps in by_attempt.items():
            read = max(1, RECORDS_READ_AT_ONCE // context.world_size(attempt))
            for begin in range(0, len(steps), read):
                found = context.repositories.records.of_steps(
                    context.run.id,
                    attempt,
                    steps[begin : begin + read],
                    bounds=self._bounds,
                    up_to=context.run.position,
                )
                for step, stored in found:
                    if budget.is_spent:
                        return False
                    key = (attempt, step)
                    self._mend_step(context, key, stored)
                    if stored.left_out:
                        self._remember_end(context, key, stored.end)
                        beyond = sum(1 for position in late[key] if position > stored.end)
                        self._report_left_out(context, key, beyond)
                    mended.add(key)
                    budget.spend(records=len(stored.records))
        return True

    def _find_mended(self, run_id: str, position: int) -> set[Key]:
        """Return the steps that were already mended with the records up to a position; this may take many slices."""
        known, mended = self._mended.pop(run_id, (position, set()))
        self._mended[run_id] = (position, mended if known == position else set())
        if len(self._mended) > MAX_FULL_STEPS:
            self._mended.popitem(last=False)
        return self._mended[run_id][1]

    def _mend_step(self, context: RunContext, key: Key, stored: StoredStep) -> None:
        attempt, step = key
        if any(not record.body for record in stored.records):
            log.warning(
                "a record of step %d of run %r comes after the others of its step were removed by retention: it is "
                "stored, and the step stays as it is",
                step,
                context.run.name,
            )
            return
        decoded = ((record.rank, wire.decode_record(record.body)) for record in stored.records)
        ranks = _known_world_size(context, attempt)
        merged = merge_records(decoded, step=step, attempt=attempt, now=context.now, world_size=ranks)
        (context.completed if key in context.completed else context.mended)[key] = merged

    def _remember_end(self, context: RunContext, key: Key, end: int) -> None:
        self._ends[context.run.id, key] = end
        if len(self._ends) > MAX_FULL_STEPS:
            self._ends.popitem(last=False)

    def _report_left_out(self, context: RunContext, key: Key, count: int) -> None:
        if not count:
            return
        self._on_left_out(count)
        log.warning(
            "step %d of run %r has more records than are merged, %d records or %d bytes: %d others are stored and "
            "change nothing; send each step once a rank, or raise RLVITALS_MAX_STEP_RECORDS or RLVITALS_MAX_STEP_BYTES",
            key[1],
            context.run.name,
            self._bounds.records,
            self._bounds.body_bytes,
            count,
        )

    def _is_ready(self, context: RunContext, waiting: WaitingSteps, key: Key, *, since: float) -> bool:
        attempt = key[0]
        return (
            attempt < context.run.projected_attempt  # its processes are gone
            or self._is_overdue(context, since)
            or waiting.ranks(key) >= context.world_size(attempt)
            or self._is_crowded(context, waiting)
        )

    def _is_overdue(self, context: RunContext, since: float) -> bool:
        """Whether a step has waited for its deadline, and no record that was stored by then is still unread."""
        deadline = since + self._settings.step_deadline_seconds
        return context.now >= deadline and self._read_times.read_time(context.run, now=context.now) >= deadline

    def _is_crowded(self, context: RunContext, waiting: WaitingSteps) -> bool:
        """Whether more steps of a run wait than may; the log names the run once, until they are half as many."""
        most, run = self._settings.max_waiting_steps, context.run
        if len(waiting) <= most:
            if len(waiting) <= most // 2:
                self._crowded.discard(run.id)
            return False
        if run.id not in self._crowded:
            if len(self._crowded) >= MAX_FULL_STEPS:
                self._crowded.clear()
            self._crowded.add(run.id)
            log.warning(
                "more than %d steps of run %r wait for ranks that have not reported, or whose records are not read yet "
                "because the projector is behind: the first ones are complete without them; start the missing ranks, "
                "correct the world size (rlvitals runs --reset), or raise RLVITALS_MAX_WAITING_STEPS",
                most,
                run.name,
            )
        return True

    def _advance(self, context: RunContext, step: Step) -> None:
        """Move the run to a step, and detect."""
        run = context.run
        here = (step.attempt, step.step)
        last = (run.last_attempt, -1 if run.last_step is None else run.last_step)
        if step.attempt == run.projected_attempt and here > last:
            if is_stray(context, step):
                log.warning(
                    "step %d of run %r is far beyond step %d: it is stored, and no detector sees it unless more such "
                    "steps follow; check what the trainer passes as step",
                    step.step,
                    run.name,
                    run.last_step,
                )
                context.add_step(step)
                return
            run.last_attempt, run.last_step = here
            run.last_step_at = context.now
            sent = min(step.time, context.now + CLOCKS_DIFFER_SECONDS)
            run.recent.add(step=step.step, time=sent, reward=step.signals.get(SPARKLINE_SIGNAL))
        elif step.attempt == run.last_attempt and here < last and was_stray(context, step):
            log.warning(
                "step %d of run %r was far beyond the steps that follow: detection starts again at step %d",
                run.last_step,
                run.name,
                step.step,
            )
            self._start_anew(context, step)
            return
        changed = self._tracker.observe(context, step)
        context.add_step(step)
        context.add_alerts(changed)

    def _start_anew(self, context: RunContext, step: Step) -> None:
        """Continue at a step below a stray last step, with new detectors that have not processed the stray one."""
        run = context.run
        run.last_step, run.last_step_at = step.step, context.now
        run.recent = Recent()
        run.recent.add(step=step.step, time=step.time, reward=step.signals.get(SPARKLINE_SIGNAL))
        changed = self._tracker.start_anew(context, step)
        context.add_step(step)
        context.add_alerts(changed)

    def _save_pace(self, context: RunContext) -> None:
        run = context.run
        run.step_seconds = run.recent.step_seconds()
        # The times come from the trainer. A step of more than a day is accepted only if the run is known for that long.
        longest = max(context.now - run.started_at, CLOCKS_DIFFER_SECONDS)
        seconds = min(run.recent.interval_seconds() or 0.0, longest)
        run.stall_seconds = max(self._settings.stall_minimum_seconds, self._settings.stall_factor * seconds)


def _known_world_size(context: RunContext, attempt: int) -> int:
    """Return the number of ranks of an attempt, or 1 if an older run has no place for the signal of the share seen."""
    return context.world_size(attempt) if SEEN_SHARE in context.positions else 1
