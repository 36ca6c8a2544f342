"""Recognises stray step numbers: numbers far beyond those before and after them."""

from itertools import pairwise
from typing import Final

from monitor_server.step_processing.run_context import RunContext
from monitor_server.store.repositories.steps import Step

__all__ = ["is_stray", "was_stray"]

# A step is a stray number if it is further ahead than this and than as many usual strides.
LARGEST_JUMP: Final = 1_000_000
# This many steps beyond a jump, in ascending order, show that the trainer's counter has really moved.
STEPS_BEYOND_JUMP: Final = 3


def is_stray(context: RunContext, step: Step) -> bool:
    """Whether the number of a step is so far ahead of the last one that it is taken for a stray number.

    If the run moved to it, every true step behind it would be late for the detectors. A few such steps in ascending
    order are accepted, because the trainer then counts from there on.
    """
    run = context.run
    if run.last_step is None or run.last_attempt != step.attempt:
        return False
    strides = sorted(later - sooner for sooner, later in pairwise(run.recent.steps) if later > sooner)
    stride = strides[len(strides) // 2] if strides else 1
    if step.step - run.last_step <= LARGEST_JUMP * stride:
        return False
    beyond = run.last_step + LARGEST_JUMP * stride
    return _count(context, step.attempt, above=beyond, below=step.step) + 1 < STEPS_BEYOND_JUMP


def was_stray(context: RunContext, step: Step) -> bool:
    """Whether the last step was a stray number. The first step of an attempt may be one, as nothing precedes it.

    It was stray if it stands alone far beyond this step, and a few steps in ascending order have arrived below it.
    """
    last = context.run.last_step
    if last is None or last - step.step <= LARGEST_JUMP or len(set(context.run.recent.steps)) >= STEPS_BEYOND_JUMP:
        return False
    before = _count(context, step.attempt, above=step.step - LARGEST_JUMP, below=step.step)
    beyond = _count(context, step.attempt, above=step.step + LARGEST_JUMP, below=last + 1)
    return before + 1 >= STEPS_BEYOND_JUMP > beyond


def _count(context: RunContext, attempt: int, *, above: int, below: int) -> int:
    """Return the number of steps of an attempt between two numbers that are stored, or completed in this slice."""
    stored = context.repositories.steps.count(context.run.id, attempt, above=above, below=below)
    return stored + sum(1 for other, number in context.completed if other == attempt and above < number < below)
