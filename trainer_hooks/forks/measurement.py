"""The measurements of a fork, and means of paired values with their intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final, Self

__all__ = ["Estimate", "ForkMeasurement"]

Z_95: Final = 1.96


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval: mean ± 1.96 s/√n over n values, taken as independent.

    With fewer than two values the interval is (−∞, ∞); without a value, or with one that is not finite, the mean is NaN
    as well.
    """

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Estimate the mean of values, of any unit."""
        numbers = [float(value) for value in values]
        if not numbers or not all(map(math.isfinite, numbers)):
            return cls(math.nan, -math.inf, math.inf)
        mean = fmean(numbers)
        if len(numbers) == 1:
            return cls(mean, -math.inf, math.inf)
        half = Z_95 * stdev(numbers) / math.sqrt(len(numbers))
        return cls(mean, mean - half, mean + half)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkMeasurement:
    """One fork after its steps, measured on contexts that are the same for all forks of a run.

    The numbers may be in lists, or in arrays of NumPy or torch with one dimension.

    Attributes:
        name: The treatment.
        steps: Steps that it trained; fewer than the others' where it failed.
        rewards: Reward of its answer to each held-out question, in the same order for all forks.
        displacements: ln π after the fork minus ln π before it of each correct response that the healthy checkpoint
            gave to these questions, nats a token.
        entropy_changes: Entropy after minus entropy before of each of its responses, nats a token.
        failure: Why it could not train to its last step; empty where it could.
    """

    name: str
    steps: int
    rewards: Sequence[float] = ()
    displacements: Sequence[float] = ()
    entropy_changes: Sequence[float] = ()
    failure: str = ""

    @property
    def has_diverged(self) -> bool:
        """Whether it failed, or has a number that is not finite."""
        values = (*self.rewards, *self.displacements, *self.entropy_changes)
        return bool(self.failure) or not all(map(math.isfinite, values))
