"""Decides which steps are complete, merges their ranks, and takes them on, in order, once.

A step is complete when all ranks of its attempt have reported, when its deadline has passed, or when a newer attempt
has begun. A step that waits holds back the later ones, so that detection sees them in order. A record for a step that
is complete already mends the stored step; detection does not see it again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from monitor_server.projection.assembly import StepRecords
from monitor_server.projection.tracking import Tracker
from monitor_server.projection.work import Key, Work
from monitor_server.settings import Settings
from monitor_server.store.repositories.runs import SPARKLINE_SIGNAL
from monitor_server.store.repositories.steps import Step

__all__ = ["Completion"]


class Completion:
    """Completes steps."""

    def __init__(self, tracker: Tracker, *, settings: Settings, is_watched: Callable[[], bool]) -> None:
        self._tracker = tracker
        self._settings = settings
        self._is_watched = is_watched

    def run(self, work: Work, positions: Mapping[str, int]) -> None:
        """Complete what is complete by now; ``positions`` are those of all signals in ``work``."""
        repositories, run_id = work.repositories, work.run.id
        late = _late(work)
        waiting = {(attempt, step): since for attempt, step, since in repositories.waiting.of_run(run_id)}
        pending = dict.fromkeys(work.steps.keys() - late - waiting.keys(), work.now) | waiting
        ready: list[Key] = []
        for key in sorted(pending):
            if not self._is_ready(work, key, since=pending[key]):
                break
            ready.append(key)
        _write(work, sorted(late), positions, replace=True)
        complete = _write(work, ready, positions, replace=False)
        repositories.waiting.change(
            run_id,
            add=pending.keys() - waiting.keys() - set(ready),
            remove=waiting.keys() & set(ready),
            now=work.now,
        )
        if complete:
            self._advance(work, complete)

    def _is_ready(self, work: Work, key: Key, *, since: float) -> bool:
        attempt, step = key
        if key not in work.steps:
            held = work.repositories.records.of_steps(work.run.id, attempt, [step])
            work.steps[key] = StepRecords.of(held.get(step, []))
        return (
            work.steps[key].ranks >= work.world_size(attempt)
            or attempt < work.run.attempt  # its processes are gone
            or work.now - since >= self._settings.step_deadline_seconds
        )

    def _advance(self, work: Work, steps: list[Step]) -> None:
        """Move the run on to its newest step, and detect."""
        run = work.run
        for step in steps:
            here = (step.attempt, step.step)
            if step.attempt == run.attempt and here > (
                run.last_attempt,
                -1 if run.last_step is None else run.last_step,
            ):
                run.last_attempt, run.last_step = here
                run.last_step_at = work.now
                run.recent.add(step=step.step, time=step.time, reward=step.signals.get(SPARKLINE_SIGNAL))
        run.step_seconds = run.recent.step_seconds()
        run.stall_seconds = max(
            self._settings.stall_minimum_seconds, self._settings.stall_factor * (run.step_seconds or 0.0)
        )
        changed = self._tracker.observe(work, steps)
        if self._is_watched():
            work.tell_steps(steps)
            work.tell_alerts(changed)


def _late(work: Work) -> set[Key]:
    touched: defaultdict[int, set[int]] = defaultdict(set)
    for attempt, step in work.steps:
        touched[attempt].add(step)
    return {
        (attempt, step)
        for attempt, steps in touched.items()
        for step in work.repositories.steps.known(work.run.id, attempt, steps)
    }


def _write(work: Work, keys: Iterable[Key], positions: Mapping[str, int], *, replace: bool) -> list[Step]:
    steps = [work.steps[attempt, step].merged(step=step, attempt=attempt, now=work.now) for attempt, step in keys]
    if steps:
        work.repositories.steps.put(work.run.id, steps, replace=replace, positions=positions)
    return steps
