"""Builds the mergeable summaries of trainer_hooks.wire from arrays. Knows no signal.

Only finite values enter a mean or a histogram; what is not finite is counted in ``finite/bad_values`` instead.
A quantity of which nothing was observed gives None, and is then absent.
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trainer_hooks.wire import Array, Extreme, Histogram, Moments, Summary

__all__ = ["bins", "largest", "moments", "observed", "share"]

Statistic = Literal["mean", "std", "variance", "ess_frac"]
Numbers = NDArray[np.floating] | NDArray[np.integer] | NDArray[np.bool_]


def moments(values: Numbers, statistic: Statistic = "mean") -> Moments | None:
    """Give count, Σx and Σx² of the finite values, summed in float64."""
    finite = _finite(values)
    if not finite.size:
        return None
    # Not a dot product: BLAS would take threads that belong to the training.
    squares = np.square(finite).sum()
    return Moments(count=finite.size, sum=float(finite.sum()), sum_squares=float(squares), statistic=statistic)


def share(part: float, whole: float) -> Moments | None:
    """Give ``part`` of ``whole`` as a mean that merges; None of nothing."""
    return Moments(count=float(whole), sum=float(part), sum_squares=float(part)) if whole else None


def largest(values: Numbers) -> Extreme | None:
    """Give the largest value; NaN is left out."""
    known = values[~np.isnan(values)]
    return Extreme(extreme=float(known.max())) if known.size else None


def bins(
    values: Numbers,
    *,
    low: float,
    high: float,
    count: int,
    quantile: float,
    scale: Literal["linear", "exp"] = "linear",
) -> Histogram | None:
    """Count the finite values in equal bins over [low, high]; values beyond the ends go into the end bins."""
    finite = _finite(values)
    if not finite.size:
        return None
    places = np.clip((finite - low) * (count / (high - low)), 0, count - 1).astype(np.intp)
    counts = np.bincount(places, minlength=count)
    # Counts of responses fit a byte, and the histogram is most of the record.
    counts = counts.astype(np.uint8 if counts.max() <= np.iinfo(np.uint8).max else np.int32)
    return Histogram(low=low, high=high, counts=Array.from_numpy(counts), quantile=quantile, scale=scale)


def observed(summaries: Mapping[str, Summary | None]) -> dict[str, Summary]:
    """Leave out what was not observed."""
    return {name: summary for name, summary in summaries.items() if summary is not None}


def _finite(values: Numbers) -> NDArray[np.float64]:
    wide = values.astype(np.float64)
    known = np.isfinite(wide)
    return wide if known.all() else wide[known]
