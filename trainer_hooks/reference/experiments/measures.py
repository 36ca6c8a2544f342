"""Measures of a recorded run: its collapse, its drift before that, and whether it stayed healthy. Pure Python."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean

__all__ = [
    "BLOCK",
    "HEALTHY_STEPS",
    "Acceleration",
    "Drift",
    "accelerating_stretch",
    "block_means",
    "collapse_step",
    "drift",
    "has_diverged",
    "observed",
    "rewards_of",
    "series",
    "smooth",
    "stayed_healthy",
]

COLLAPSE_SHARE, COLLAPSE_STEPS = 0.5, 10
HEALTHY_SHARE, HEALTHY_STEPS = 0.8, 50

FIRST_STEP = 11
"""The first step that counts; before it the policy still adapts from its warm start."""

BLOCK = 10
"""Steps in the means at both ends of a stretch."""

LEAST_STEPS = 30
LEAST_BLOCKS = 3
LEAST_FALL = 0.03
REWARD_HELD, REWARD_SAG = 0.95, 0.85
STEADY_GRADIENT = 1.5
SURGE_STEPS = 5


def series(rows: Sequence[Mapping[str, float]], name: str) -> list[float]:
    """Return a signal over the steps of a run; NaN where a step has none."""
    return [row.get(name, float("nan")) for row in rows]


def observed(values: Iterable[float]) -> list[float]:
    """Return the values that are not NaN, which stands for a step without one."""
    return [value for value in values if not math.isnan(value)]


def rewards_of(rows: Sequence[Mapping[str, float]], name: str = "reward/mean", *, steps: int = 0) -> list[float]:
    """Return a reward over the steps of a run, which earned nothing from the step at which it diverged.

    The recording ends at that step. The zeros go on for 50 steps, as if the run had been followed, or to step ``steps``
    if that is later.
    """
    if not has_diverged(series(rows, "reward/mean")):
        return series(rows, name)
    earned = series(rows[:-1], name)
    return earned + [0.0] * max(HEALTHY_STEPS, steps - len(earned))


def smooth(values: Sequence[float], *, weight: float = 0.2) -> list[float]:
    """Compute the exponential moving average from the first value on; a NaN leaves it unchanged."""
    averages: list[float] = []
    for value in values:
        last = averages[-1] if averages else value
        if last != last:  # noqa: PLR0124 - NaN
            last = value
        averages.append(last if value != value else (1 - weight) * last + weight * value)  # noqa: PLR0124 - NaN
    return averages


def collapse_step(rewards: Sequence[float]) -> int | None:
    """Find the first step, from 1, at which the average falls below half its running best for 10 steps.

    A run without such a step whose last reward is NaN has diverged there, and the step of its collapse is the last.
    """
    best, below = 0.0, 0
    for step, average in enumerate(smooth(rewards), start=1):
        best = max(best, average)
        below = below + 1 if average < COLLAPSE_SHARE * best else 0
        if below == COLLAPSE_STEPS:
            return step - COLLAPSE_STEPS + 1
    return len(rewards) if has_diverged(rewards) else None


def has_diverged(rewards: Sequence[float]) -> bool:
    """Return whether the last reward is NaN: the weights gave no finite probabilities any more."""
    return bool(rewards) and math.isnan(rewards[-1])


def stayed_healthy(rewards: Sequence[float]) -> bool:
    """Return whether the last 50 steps earned 0.8 of the best 50 in a row, and there was no collapse."""
    means = [fmean(rewards[at : at + HEALTHY_STEPS]) for at in range(max(1, len(rewards) - HEALTHY_STEPS + 1))]
    return means[-1] >= HEALTHY_SHARE * max(means) and collapse_step(rewards) is None


@dataclass(frozen=True, slots=True)
class Drift:
    """Phase II of a run: the longest stretch in which correct responses lose likelihood while reward and gradient hold.

    Changes are from the means of its first ten steps to those of its last ten; the paired ones are sums over it.
    """

    first_step: int
    last_step: int
    likelihood: float
    displacement: float
    entropy: float
    reward: float
    further_fall: float
    """Change of the likelihood from the stretch's last ten steps to the ten before the collapse or the run's end."""
    surge: float
    """Largest five-step mean of the gradient norm after the stretch over its mean inside; NaN if no step follows."""

    @property
    def steps(self) -> int:
        """Length of the stretch in steps."""
        return self.last_step - self.first_step + 1


def drift(rows: Sequence[Mapping[str, float]]) -> Drift | None:
    """Find phase II in a recorded run; return None if no stretch of 30 steps has its signs.

    The signs: the batch's ``likelihood/correct`` falls by 0.03 nat a token or more, summed ``displacement/cross`` is
    below 0, summed ``entropy/paired_delta`` above 0, the reward ends at 0.95 of its first value or more and no ten-step
    mean of it is under 0.85 of that value, and every ten-step mean of the gradient norm stays within a factor of 1.5 of
    the first. The stretch begins at step 11 or later and ends before the collapse.
    """
    end = collapse_step(series(rows, "reward/mean"))
    before = rows[: None if end is None else end - 1]
    likelihood, reward, gradient = (
        block_means(before, name) for name in ("likelihood/correct", "reward/mean", "grad/norm")
    )
    displaced, entropy = (_sums(before, name) for name in ("displacement/cross", "entropy/paired_delta"))
    best: tuple[int, int] | None = None
    for first in range(FIRST_STEP - 1, len(likelihood)):
        for tail in range(first + 1, len(likelihood)):
            is_steady = gradient[first] <= STEADY_GRADIENT * gradient[tail] <= STEADY_GRADIENT**2 * gradient[first]
            if not is_steady or reward[tail] < REWARD_SAG * reward[first]:
                break
            last = tail + BLOCK - 1
            is_drift = (
                last - first + 1 >= LEAST_STEPS
                and likelihood[tail] <= likelihood[first] - LEAST_FALL
                and displaced[last + 1] < displaced[first]
                and entropy[last + 1] > entropy[first]
                and reward[tail] >= REWARD_HELD * reward[first]
            )
            if is_drift and (best is None or last - first > best[1] - best[0]):
                best = first, last
    if best is None:
        return None
    first, last = best
    tail = last - BLOCK + 1
    norms = series(rows, "grad/norm")
    after = [fmean(norms[at : at + SURGE_STEPS]) for at in range(last + 1, len(norms) - SURGE_STEPS + 1)]
    return Drift(
        first_step=first + 1,
        last_step=last + 1,
        likelihood=likelihood[tail] - likelihood[first],
        displacement=displaced[last + 1] - displaced[first],
        entropy=entropy[last + 1] - entropy[first],
        reward=reward[tail] - reward[first],
        further_fall=likelihood[-1] - likelihood[tail],
        surge=max(after) / fmean(norms[first : last + 1]) if after else float("nan"),
    )


@dataclass(frozen=True, slots=True)
class Acceleration:
    """Accelerating displacement (Def. 5.1): consecutive blocks of ten steps with ε ≤ 0 in which ε falls.

    ε of a block is the mean of ``displacement/cross``, the largest ε for which held-out correct responses have lazy
    likelihood displacement (Def. 4.1) on average, in nats a token a step.
    """

    first_step: int
    last_step: int
    first: float
    last: float


def accelerating_stretch(rows: Sequence[Mapping[str, float]]) -> Acceleration | None:
    """Find the longest stretch of three blocks or more before the collapse, or None where there is none."""
    end = collapse_step(series(rows, "reward/mean"))
    means = block_means(rows[: None if end is None else end - 1], "displacement/cross")[::BLOCK]
    best: tuple[int, int] | None = None
    first = 0
    for at in range(1, len(means) + 1):
        goes_on = at < len(means) and means[at] < means[at - 1] <= 0
        if not goes_on:
            if at - first >= LEAST_BLOCKS and (best is None or at - first > best[1] - best[0]):
                best = first, at
            first = at
    if best is None:
        return None
    start, stop = best
    return Acceleration(start * BLOCK + 1, stop * BLOCK, means[start], means[stop - 1])


def block_means(rows: Sequence[Mapping[str, float]], name: str) -> list[float]:
    """Compute the mean of the ten steps that begin at each step, without the steps that lack the signal."""
    values = series(rows, name)
    blocks = (values[at : at + BLOCK] for at in range(len(values) - BLOCK + 1))
    present = ([value for value in block if value == value] for block in blocks)  # noqa: PLR0124 - NaN
    return [fmean(block) if block else float("nan") for block in present]


def _sums(rows: Sequence[Mapping[str, float]], name: str) -> list[float]:
    """Compute the sum of the steps before each step; a step without the signal adds nothing."""
    return list(accumulate((row.get(name, 0.0) for row in rows), initial=0.0))
