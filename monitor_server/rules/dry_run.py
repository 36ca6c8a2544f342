"""A dry run: the times at which a rule would have fired on a recorded run, by the projector's own state machine.

It reads the steps of each attempt in the order in which the detectors saw them. A bounded number of steps is read, and
only the signals that the rule needs.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from monitor_server.rules.definition import ComparisonRule, Rule
from monitor_server.rules.findings import finding_of
from monitor_server.rules.state_machine import Machine, MachineState
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.steps import StepColumns

__all__ = ["MAX_DRY_RUN_STEPS", "DryRun", "Firing", "dry_run"]

MAX_DRY_RUN_STEPS: Final = 200_000
"""The largest number of steps of one dry run, which takes some seconds."""
MAX_DRY_RUN_SECONDS: Final = 20.0
MAX_EPISODES: Final = 100
PAGE_STEPS: Final = 1_000
"""The number of steps that are read at once, for the run and for the one that it is compared with."""
LAST_STEP: Final = 2**62


@dataclass(slots=True, kw_only=True)
class Firing:
    """One time at which the rule would have fired.

    Attributes:
        fired_attempt: The attempt, in the trainer's numbering.
        fired_step: The step at which it fires; if a time passed between two steps, the earlier step.
        fired_at: The time, in seconds since the epoch, by the times of the steps.
        summary: The summary of the alert.
        evidence: The arithmetic of the alert.
        resolved_step: The step at which it is resolved; None if it still fires at the end.
        resolved_at: The time at which it is resolved.
    """

    fired_attempt: int
    fired_step: int
    fired_at: float
    summary: str
    evidence: Mapping[str, Any]
    resolved_step: int | None = None
    resolved_at: float | None = None


@dataclass(slots=True, kw_only=True)
class DryRun:
    """The result of a dry run.

    Attributes:
        episodes: The first episodes, each a time at which the rule would have fired.
        episode_count: The number of all episodes.
        steps: The number of steps that were read.
        observed: The number of these steps that had the data that the rule needs.
        first_step: The lowest step that was read.
        last_attempt: The attempt of the last step that was read, in the trainer's numbering.
        last_step: The last step that was read; a rewound run may have a higher one in an earlier attempt.
        is_complete: Whether all requested steps were read.
    """

    episodes: list[Firing] = field(default_factory=list)
    episode_count: int = 0
    steps: int = 0
    observed: int = 0
    first_step: int | None = None
    last_attempt: int | None = None
    last_step: int | None = None
    is_complete: bool = True


def dry_run(
    repositories: Repositories,
    run_id: str,
    rule: Rule,
    *,
    from_step: int = 0,
    to_step: int = LAST_STEP,
    most_steps: int = MAX_DRY_RUN_STEPS,
    clock: Callable[[], float] = time.monotonic,
) -> DryRun:
    """Return the times at which a rule would have fired on the stored steps of a run.

    Args:
        repositories: A snapshot.
        run_id: The run.
        rule: The rule; its project and run are ignored.
        from_step: The first step of each attempt.
        to_step: The last step of each attempt.
        most_steps: The largest number of steps to read.
        clock: In seconds; a dry run ends after `MAX_DRY_RUN_SECONDS`.
    """
    result, machine = DryRun(), Machine(rule, MachineState("", 0))
    ranges, deadline = repositories.steps.ranges(run_id), clock() + MAX_DRY_RUN_SECONDS
    for attempt in repositories.attempts.ordinals(run_id):
        first, last = ranges.get(attempt, (0, -1))
        begin, end = max(from_step, first), min(to_step, last)
        # The rows of all attempts are stored side by side, so each attempt is only searched in its own range of steps.
        while begin <= end:
            if clock() >= deadline:
                result.is_complete = False
                return result
            limit = min(PAGE_STEPS, most_steps - result.steps)
            read = repositories.steps.columns(
                run_id, attempt, [rule.signal], from_step=begin, to_step=end, limit=limit + 1
            )
            others = _values_of_other(repositories, rule, read.steps[:limit])
            _process(machine, read, others, result, attempt=attempt, limit=limit)
            if len(read.steps) <= limit:
                break
            if result.steps >= most_steps:
                result.is_complete = False
                return result
            begin = read.steps[limit]
    return result


def _process(
    machine: Machine, read: StepColumns, others: Mapping[int, float], result: DryRun, *, attempt: int, limit: int
) -> None:
    state, steps = machine.state, read.steps[:limit]
    for step, at, value in zip(steps, read.times, read.values[0], strict=False):
        due = machine.due_at()
        if due is not None and due <= at and machine.tick(due):
            _begin(machine, due, result)
        was_firing, is_taken_back = state.is_firing, machine.takes_back(attempt=attempt, step=step)
        machine.update(attempt=attempt, step=step, time=at, now=at, value=value, other=others.get(step))
        result.observed += state.has_data
        if was_firing and (is_taken_back or not state.is_firing):
            _end(step, at, result)
        if state.is_firing and (is_taken_back or not was_firing):
            _begin(machine, at, result)
    if steps:
        result.steps += len(steps)
        result.first_step = steps[0] if result.first_step is None else min(result.first_step, steps[0])
        result.last_attempt, result.last_step = attempt, steps[-1]


def _begin(machine: Machine, at: float, result: DryRun) -> None:
    result.episode_count += 1
    if result.episode_count > MAX_EPISODES:
        return
    found = finding_of(machine.rule, machine.state)
    episode = Firing(
        fired_attempt=machine.state.attempt,
        fired_step=found.step,
        fired_at=at,
        summary=found.summary,
        evidence=found.evidence,
    )
    result.episodes.append(episode)


def _end(step: int, at: float, result: DryRun) -> None:
    if result.episode_count <= MAX_EPISODES:
        result.episodes[-1].resolved_step, result.episodes[-1].resolved_at = step, at


def _values_of_other(repositories: Repositories, rule: Rule, steps: Sequence[int]) -> dict[int, float]:
    """Return the values of the other run of a comparison at the steps of one page, by step."""
    if not isinstance(rule, ComparisonRule) or not steps:
        return {}
    return repositories.steps.values_at(rule.other_run_id, rule.other_signal or rule.signal, steps)
