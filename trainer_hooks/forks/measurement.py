"""The measurements of a fork, and means of paired values with their intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final, Self

__all__ = ["Estimate", "ForkMeasurement"]

_Z_95: Final = 1.96
_T_95: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""The 97.5 % quantile of Student's t for 1 to 9 degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval: mean ± t s/√n over n values, taken as independent.

    t is the 97.5 % quantile of Student's t with n − 1 degrees of freedom: 12.7 for two values, 1.98 for 128.

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
        half = _t_95(len(numbers) - 1) * stdev(numbers) / math.sqrt(len(numbers))
        return cls(mean, mean - half, mean + half)


def _t_95(freedom: int) -> float:
    """Return the quantile of Student's t, for many degrees of freedom by its expansion (Fisher, Cornish 1960)."""
    if freedom <= len(_T_95):
        return _T_95[freedom - 1]
    z = _Z_95
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


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
