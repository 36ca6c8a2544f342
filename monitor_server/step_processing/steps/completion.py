"""Decides which steps are complete, merges their ranks, and passes them to detection, in order, once.

A step is complete when all ranks of its attempt have reported it, when its deadline has passed, when a newer attempt
has begun, or when too many steps of its run wait. Its deadline counts only what has been read: a rank whose record is
in the log is not missing, however long the projector was stopped. A step that waits holds back the later ones, so that
detection processes steps in order. A record for a step that is already complete corrects the stored step
(`late_records`).
"""

import logging

from monitor_server.durations import DAY_SECONDS
from monitor_server.settings import Settings
from monitor_server.step_processing.run_context import Key, RunContext
from monitor_server.step_processing.steps.budget import Budget
from monitor_server.step_processing.steps.detection import Tracker
from monitor_server.step_processing.steps.late_records import LateRecords
from monitor_server.step_processing.steps.read_times import ReadTimes
from monitor_server.step_processing.steps.stray_numbers import is_stray, was_stray
from monitor_server.step_processing.steps.waiting import WaitingSteps
from monitor_server.store.repositories.recent_steps import SPARKLINE_SIGNAL, Recent
from monitor_server.store.repositories.steps import Step

__all__ = ["Completion"]

log = logging.getLogger(__name__)

# The clocks of trainer and collector may differ by a day; a larger difference is not accepted.
CLOCKS_DIFFER_SECONDS = DAY_SECONDS
MAX_CROWDED_RUNS = 4_096  # whose waiting steps the log of this process has named


class Completion:
    """Completes the steps of runs.

    Args:
        tracker: Detection.
        late_records: What becomes of the records that come after their steps.
        settings: Deadlines and limits.
    """

    def __init__(self, tracker: Tracker, late_records: LateRecords, *, settings: Settings) -> None:
        self._tracker = tracker
        self._late_records = late_records
        self._settings = settings
        self._crowded: set[str] = set()
        self._read_times = ReadTimes()

    @property
    def crowded_runs(self) -> int:
        """The number of runs of which too many steps wait, at most `MAX_CROWDED_RUNS`."""
        return len(self._crowded)

    @property
    def runs_behind(self) -> int:
        """The number of runs with an overdue step whose logs are not read to their ends; it is bounded."""
        return len(self._read_times)

    def forget(self, run_id: str | None = None) -> None:
        """Drop a run, or all runs, from memory, because the store did not accept the change."""
        self._read_times.forget(run_id)

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
            ranks = context.known_world_size(key[0])
            step = records.merge(step=key[1], attempt=key[0], now=context.now, world_size=ranks)
            budget.spend(records=len(records))
            self._late_records.note_complete(context, key, left_out=records.left_out)
            waiting.remove_first()
            self._advance(context, step)
            context.completed[key] = step
            has_completed = True
        if has_completed:
            self._save_pace(context)
        return is_done

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
            if len(self._crowded) >= MAX_CROWDED_RUNS:
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
