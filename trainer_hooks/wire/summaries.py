"""The wire form of signals: sums, extremes and bins that merge exactly over ranks (decision 0001)."""

import math
from collections.abc import Iterable
from typing import Literal

import msgspec
import numpy as np

from trainer_hooks.wire.arrays import Array, Wire

__all__ = ["Extreme", "Histogram", "Moments", "Summary", "merge_summaries"]

# Of a variance, relative to the squared mean. The sums of equal values on a thousand ranks leave less.
ROUNDING = 1e-13
LARGEST_EXPONENT = 709.0  # e to a larger power overflows float64, and Python then raises instead of returning inf


class Moments(Wire, tag="moments", tag_field="type", frozen=True):
    """Count, sum and sum of squares of a quantity on one rank; ``statistic`` names the number shown.

    mean = Σx/n, std = √(Σx²/n − (Σx/n)²), variance = std², ess_frac = (Σx)² / (n·Σx²), sum = Σx. A std that is smaller
    than the rounding of these sums, about 3e-7 of the mean, is 0.
    Only finite values are summed; non-finite ones are counted in ``finite/bad_values``.
    """

    count: float
    sum: float
    sum_squares: float = 0.0
    statistic: Literal["mean", "std", "variance", "ess_frac", "sum"] = "mean"

    def merge(self, other: "Moments") -> "Moments":
        """Return the sum of this and the same quantity measured on another rank."""
        return msgspec.structs.replace(
            self,
            count=self.count + other.count,
            sum=self.sum + other.sum,
            sum_squares=self.sum_squares + other.sum_squares,
        )

    def value(self) -> float | None:
        """Compute the statistic, or return None where nothing was observed."""
        if self.statistic == "sum":
            return self.sum
        if not self.count > 0:
            return None
        mean = self.sum / self.count
        if self.statistic == "mean":
            return mean
        if self.statistic == "ess_frac":
            denominator = self.count * self.sum_squares
            return self.sum * self.sum / denominator if denominator > 0 else None
        variance = self.sum_squares / self.count - mean * mean
        if math.isnan(variance):  # the squares are beyond the largest number, or NaN; 0 would mean equal values
            variance = self.sum_squares if self.sum_squares >= 0 else math.nan
        if variance < ROUNDING * mean * mean:
            variance = 0.0
        return variance if self.statistic == "variance" else math.sqrt(variance)


class Extreme(Wire, tag="extreme", tag_field="type", frozen=True):
    """A largest or smallest value."""

    extreme: float
    statistic: Literal["max", "min"] = "max"

    def merge(self, other: "Extreme") -> "Extreme":
        """Return the more extreme of the two; NaN takes precedence, so that it is not lost."""
        if math.isnan(self.extreme) or math.isnan(other.extreme):
            return msgspec.structs.replace(self, extreme=math.nan)
        pick = max if self.statistic == "max" else min
        return msgspec.structs.replace(self, extreme=pick(self.extreme, other.extreme))

    def value(self) -> float | None:
        """Return the extreme value."""
        return self.extreme


class Histogram(Wire, tag="histogram", tag_field="type", frozen=True):
    """Counts in equal bins over [low, high], from which one quantile is computed; values beyond are in the end bins.

    With ``scale="exp"`` the bins hold logarithms, and the quantile is exponentiated. The quantile is interpolated
    inside its bin, so it is exact to one bin width, (high − low) / number of bins.
    """

    low: float
    high: float
    counts: Array
    quantile: float
    scale: Literal["linear", "exp"] = "linear"

    def merge(self, other: "Histogram") -> "Histogram":
        """Return the sum of the counts of this rank and another.

        Raises:
            ValueError: If the bins differ.
        """
        if (self.low, self.high, self.counts.shape) != (other.low, other.high, other.counts.shape):
            raise ValueError(
                f"histograms must have equal bins to be merged, got {self.low, self.high, self.counts.shape} "
                f"and {other.low, other.high, other.counts.shape}"
            )
        counts = self.counts.to_numpy().astype(np.int64) + other.counts.to_numpy()
        return msgspec.structs.replace(self, counts=Array.from_numpy(counts))

    def value(self) -> float | None:
        """Compute the quantile, or return None where nothing was observed."""
        counts = self.counts.to_numpy().astype(np.float64)
        total = counts.sum()
        if not total > 0:
            return None
        cumulative = np.cumsum(counts)
        target = self.quantile * total
        index = int(np.searchsorted(cumulative, target, side="left").clip(0, len(counts) - 1))
        below = cumulative[index] - counts[index]
        inside = (target - below) / counts[index] if counts[index] > 0 else 0.0
        position = self.low + (index + inside) * (self.high - self.low) / len(counts)
        if self.scale == "linear":
            return float(position)
        return math.exp(position) if position < LARGEST_EXPONENT else math.inf


Summary = Moments | Extreme | Histogram


def merge_summaries(named: Iterable[tuple[str, Summary]]) -> dict[str, Summary]:
    """Merge the summaries of each name, in the order given.

    Raises:
        ValueError: If histograms of one name have different bins.
    """
    merged: dict[str, Summary] = {}
    for name, summary in named:
        first = merged.get(name)
        merged[name] = summary if first is None else first.merge(summary)  # type: ignore[arg-type]
    return merged
