"""Decides which steps are complete, merges their ranks, and hands them to detection, in order, once.

A step is complete when all ranks of its attempt have reported, when its deadline has passed, or when a newer attempt
has begun. A step that waits holds back the later ones, so that detection sees them in order. A record for a step that
is complete already mends the stored step; detection does not see it again.
"""

from collections.abc import Callable, Iterable
from time import perf_counter

from monitor_server.projection.rank_merging import StepRecords
from monitor_server.projection.run_context import Key, RunContext
from monitor_server.projection.step_detection import Tracker
from monitor_server.projection.waiting_steps import WaitingSteps
from monitor_server.settings import Settings
from monitor_server.store.repositories.runs import SPARKLINE_SIGNAL
from monitor_server.store.repositories.steps import Step

__all__ = ["Budget", "Completion"]

MAX_STEPS_PER_SLICE = 256
MAX_SECONDS_PER_SLICE = 0.1


class Budget:
    """How much one transaction may do, so that others get their turn: at least one step, then to either bound."""

    def __init__(self, *, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._end = clock() + MAX_SECONDS_PER_SLICE
        self._steps = 0

    def spend(self) -> None:
        """Count a step."""
        self._steps += 1

    @property
    def is_spent(self) -> bool:
        """Whether the transaction has to end."""
        return self._steps >= MAX_STEPS_PER_SLICE or (self._steps > 0 and self._clock() >= self._end)


class Completion:
    """Completes steps."""

    def __init__(self, tracker: Tracker, *, settings: Settings) -> None:
        self._tracker = tracker
        self._settings = settings

    def complete(self, context: RunContext, waiting: WaitingSteps, budget: Budget) -> bool:
        """Complete what is complete by now; return False where the budget was spent before that."""
        steps: list[Step] = []
        is_done = True
        while (first := waiting.first()) is not None:
            key, since = first
            records = waiting.records(key)
            if not self._is_ready(context, key, records, since=since):
                break
            if budget.is_spent:
                is_done = False
                break
            step = records.merge(step=key[1], attempt=key[0], now=context.now)
            waiting.remove_first()
            self._advance(context, step)
            steps.append(step)
            budget.spend()
        if steps:
            context.repositories.steps.put(context.run.id, steps, replace=False, positions=context.positions)
            self._save_pace(context)
        return is_done

    def mend(self, context: RunContext, keys: Iterable[Key]) -> None:
        """Merge complete steps anew, with the records that came late."""
        run_id = context.run.id
        for attempt, step in sorted(keys):
            stored = context.repositories.records.of_steps(run_id, attempt, [step], up_to=context.run.position)
            mended = StepRecords.decode(stored[step]).merge(step=step, attempt=attempt, now=context.now)
            context.repositories.steps.put(run_id, [mended], replace=True, positions=context.positions)

    def _is_ready(self, context: RunContext, key: Key, records: StepRecords, *, since: float) -> bool:
        attempt = key[0]
        return (
            records.ranks >= context.world_size(attempt)
            or attempt < context.run.projected_attempt  # its processes are gone
            or context.now - since >= self._settings.step_deadline_seconds
        )

    def _advance(self, context: RunContext, step: Step) -> None:
        """Move the run to a step, and detect."""
        run = context.run
        here = (step.attempt, step.step)
        last = (run.last_attempt, -1 if run.last_step is None else run.last_step)
        if step.attempt == run.projected_attempt and here > last:
            run.last_attempt, run.last_step = here
            run.last_step_at = context.now
            run.recent.add(step=step.step, time=step.time, reward=step.signals.get(SPARKLINE_SIGNAL))
        changed = self._tracker.observe(context, step)
        context.add_step(step)
        context.add_alerts(changed)

    def _save_pace(self, context: RunContext) -> None:
        run = context.run
        run.step_seconds = run.recent.step_seconds()
        run.stall_seconds = max(
            self._settings.stall_minimum_seconds, self._settings.stall_factor * (run.step_seconds or 0.0)
        )
