"""One rule on one run, step by step: a pure state machine that the projector and the dry run share.

Each step has one of four results. The condition holds; it does not hold; it cannot be decided, because the number is
NaN; or there is no data, because a signal was not recorded. A step without data changes nothing. A step that cannot be
decided ends the time for which the condition has held, and does not resolve an alert.
"""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from monitor_server.rules.definition import (
    NOT_FINITE,
    AbsenceRule,
    ChangeRule,
    ComparisonRule,
    Measure,
    Rule,
)

__all__ = ["Machine", "MachineState", "Sample"]

SAMPLES: Final = 32
"""The number of earlier values that a change keeps.

They are at least a 32nd of the distance apart. So the earlier value is that of exactly ``before_steps`` steps before
for up to 32 steps, and at most about 3 % older for more steps."""

_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": lambda measured, value: measured != value and not math.isnan(measured),
}


class Sample(msgspec.Struct, array_like=True, frozen=True):
    """A value of a signal, with its step and its time in seconds since the epoch."""

    step: int
    time: float
    value: float


class MachineState(msgspec.Struct, array_like=True):
    """The complete state that is needed to continue.

    Attributes:
        rule_id: The rule.
        version: The version of the rule; another version starts anew.
        attempt: The attempt of the newest step.
        step: The newest step; None before the first.
        is_firing: Whether the alert fires.
        since_step: The step since which the condition has held, or the signal is absent; None if it does not hold.
        since_time: The time of that step, or of a later one whose time is earlier, because the trainer's clock was
            ahead.
        heard_at: The time at which the signal was last recorded or the attempt began, by the clock of the collector;
            infinite between the end of the run and the first reading of the clock after the run goes on. If a later
            reading is earlier, the clock was ahead, and that reading counts instead.
        has_data: Whether the newest step had the data that the rule needs.
        observed: The newest value of the signal; None if the run went back to its step or before it.
        reference: The value that it was compared with: from an earlier step, or from another run.
        measured: The number that was compared with the rule's value.
        samples: Earlier values of a change, the oldest first.
        fired_step: The step at which the alert began to fire, or the newest one where the clock made it fire.
    """

    rule_id: str
    version: int
    attempt: int = 0
    step: int | None = None
    is_firing: bool = False
    since_step: int | None = None
    since_time: float = 0.0
    heard_at: float = 0.0
    has_data: bool = False
    observed: Sample | None = None
    reference: Sample | None = None
    measured: float | None = None
    samples: list[Sample] = []
    fired_step: int | None = None


class Machine:
    """A rule with its state on one run."""

    __slots__ = ("_compare", "_is_absence", "_needed_seconds", "_needed_steps", "_value", "rule", "state")

    def __init__(self, rule: Rule, state: MachineState) -> None:
        self.rule = rule
        self.state = state
        self._is_absence = isinstance(rule, AbsenceRule)
        self._needed_steps = rule.for_steps or 0
        self._needed_seconds = rule.for_seconds or 0.0
        self._compare: Callable[[float, float], bool] = _is_not_finite
        self._value = 0.0
        if not isinstance(rule, AbsenceRule) and rule.operator != NOT_FINITE:
            self._compare, self._value = _COMPARISONS[rule.operator], rule.value or 0.0

    def update(
        self, *, attempt: int, step: int, time: float, now: float, value: float | None, other: float | None = None
    ) -> None:
        """Process one complete step.

        Args:
            attempt: The attempt of the step.
            step: Its number.
            time: Its time, in seconds since the epoch, as the trainer recorded it.
            now: The time of the collector's clock.
            value: The value of the rule's signal; None if the step did not record it.
            other: For a comparison, the value of the other run at this step; None if there is none.
        """
        state = self.state
        if self.takes_back(attempt=attempt, step=step):
            state.is_firing = False
        if self._begins(attempt, step):
            self._begin_attempt(step, time, now)
        was_firing = state.is_firing
        state.attempt, state.step = attempt, step
        state.heard_at = min(state.heard_at, now)
        if self._is_absence:
            self._update_absence(step, time, now, value)
        elif value is None:
            state.has_data = False
        else:
            self._update_number(Sample(step, time, value), other)
        if state.is_firing and not was_firing:
            state.fired_step = step

    def takes_back(self, *, attempt: int, step: int) -> bool:
        """Whether a step ends the alert because the run went back to the step at which it began to fire, or before it.

        The step itself may make the rule fire again. This is another alert.
        """
        state = self.state
        return (
            state.is_firing
            and state.fired_step is not None
            and state.fired_step >= step
            and self._begins(attempt, step)
        )

    def due_at(self) -> float | None:
        """Return the time at which an absence fires, in seconds since the epoch; None if the clock fires nothing."""
        if not self._is_absence or not self._needed_seconds or self.state.is_firing or self.state.step is None:
            return None
        due = self.state.heard_at + self._needed_seconds
        return due if math.isfinite(due) else None

    def tick(self, now: float) -> bool:
        """Process the passage of time on a run without new steps; return whether the alert begins to fire."""
        self.state.heard_at = min(self.state.heard_at, now)
        due = self.due_at()
        if due is None or now < due:
            return False
        self.state.is_firing = True
        self.state.has_data = False
        self.state.fired_step = self.state.step
        return True

    def lose_other_run(self) -> bool:
        """End the alert of a comparison, because its other run is deleted; return whether it fired."""
        fired = self.state.is_firing
        self.state.is_firing, self.state.since_step = False, None
        return fired

    def end_run(self) -> bool:
        """End the absence of a signal by time, because its run has ended; return whether its alert fired."""
        self.state.heard_at = math.inf
        fired = self._is_absence and bool(self._needed_seconds) and self.state.is_firing
        if fired:
            self.state.is_firing = False
        return fired

    def _begins(self, attempt: int, step: int) -> bool:
        """Whether a step is the first of an attempt."""
        return self.state.step is None or attempt != self.state.attempt or step <= self.state.step

    def _begin_attempt(self, step: int, time: float, now: float) -> None:
        """Restart all durations, and forget the values of steps that are repeated."""
        state = self.state
        state.since_step, state.since_time = (step, time) if self._is_absence else (None, 0.0)
        state.heard_at = now
        state.samples = [sample for sample in state.samples if sample.step < step]
        if state.observed is not None and state.observed.step >= step:
            state.observed = None

    def _update_absence(self, step: int, time: float, now: float, value: float | None) -> None:
        state = self.state
        if value is not None:
            state.observed, state.has_data, state.is_firing = Sample(step, time, value), True, False
            state.since_step, state.since_time, state.heard_at = step, time, now
            return
        state.has_data = False
        state.since_time = min(state.since_time, time)
        since = step if state.since_step is None else state.since_step
        by_steps = 0 < self._needed_steps <= step - since
        by_time = 0 < self._needed_seconds <= time - state.since_time
        if by_steps or by_time:
            state.is_firing = True

    def _update_number(self, sample: Sample, other: float | None) -> None:
        state, rule = self.state, self.rule
        measured: float | None = sample.value
        reference: Sample | None = None
        if isinstance(rule, ChangeRule):
            reference = self._earlier(rule, sample)
            measured = None if reference is None else _measure(rule.measure, sample.value, reference.value)
            self._keep(rule, sample)
        elif isinstance(rule, ComparisonRule):
            reference = None if other is None else Sample(sample.step, sample.time, other)
            measured = None if other is None else _measure(rule.measure, sample.value, other)
        state.observed, state.has_data = sample, measured is not None
        if measured is None:
            return
        state.measured, state.reference = measured, reference
        if not self._compare(measured, self._value):
            state.since_step = None
            # Every comparison with NaN is false, so NaN does not end an alert either.
            if not math.isnan(measured) or self._compare is _is_not_finite:
                state.is_firing = False
            return
        if state.since_step is None:
            state.since_step, state.since_time = sample.step, sample.time
        state.since_time = min(state.since_time, sample.time)
        if (
            sample.step - state.since_step >= self._needed_steps
            and sample.time - state.since_time >= self._needed_seconds
        ):
            state.is_firing = True

    def _earlier(self, rule: ChangeRule, sample: Sample) -> Sample | None:
        """Return the newest kept value that is at least the rule's distance before a sample, or None."""
        samples = self.state.samples
        if rule.before_seconds is not None and any(kept.time > sample.time for kept in samples):
            # Values from a clock that was ahead would stay the newest ones, and nothing be compared, until it is there.
            samples[:] = [kept for kept in samples if kept.time <= sample.time]
        found = None
        for place, kept in enumerate(samples):
            if not _is_before(rule, kept, sample):
                break
            found = place
        if found is None:
            return None
        del samples[:found]  # older values are never needed again
        return samples[0]

    def _keep(self, rule: ChangeRule, sample: Sample) -> None:
        if math.isnan(sample.value):
            return  # every later comparison with it would be undecided
        samples = self.state.samples
        if samples:
            newest = samples[-1]
            if rule.before_steps is not None:
                if sample.step - newest.step < -(-rule.before_steps // SAMPLES):
                    return
            elif sample.time - newest.time < (rule.before_seconds or 0.0) / SAMPLES:
                return
        samples.append(sample)


def _is_not_finite(measured: float, _value: float) -> bool:
    return not math.isfinite(measured)


def _is_before(rule: ChangeRule, earlier: Sample, sample: Sample) -> bool:
    if rule.before_steps is not None:
        return sample.step - earlier.step >= rule.before_steps
    return sample.time - earlier.time >= (rule.before_seconds or 0.0)


def _measure(measure: Measure, value: float, reference: float) -> float:
    """Compare two values; a division by 0 is infinite or NaN, as IEEE 754 defines it."""
    if measure == "difference":
        return value - reference
    divided, divisor = (value, reference) if measure == "ratio" else (value - reference, abs(reference))
    if divisor != 0.0:
        return divided / divisor
    if divided == 0.0 or math.isnan(divided):
        return math.nan
    return math.copysign(math.inf, divided) * math.copysign(1.0, divisor)
