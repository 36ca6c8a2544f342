"""Builds the mergeable summaries of trainer_hooks.wire from arrays, wherever they are. Knows no signal.

Only finite values enter a mean or a histogram; what is not finite is counted in ``finite/bad_values`` instead.
A quantity of which nothing was observed gives None, and is then absent.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainer_hooks.arrays import Array, ArrayLibrary, Fetched, Pending
from trainer_hooks.wire import Array as WireArray
from trainer_hooks.wire import Extreme, Histogram, Moments, Summary

__all__ = ["PendingSummary", "Statistic", "added_moments", "bins", "largest", "moments", "only_if", "share", "total"]

Statistic = Literal["mean", "std", "variance", "ess_frac"]
Scale = Literal["linear", "exp"]
Numbers = NDArray[np.float64]
LARGEST_BYTE = np.iinfo(np.uint8).max
PendingSummary: TypeAlias = Pending[Summary | None]


def moments(
    library: ArrayLibrary, values: Array, where: Array | None = None, statistic: Statistic = "mean"
) -> PendingSummary:
    """Give count, Σx and Σx² of the finite values, summed in float64."""
    return Pending(library.moments(values, where), partial(_moments, statistic))


def added_moments(sums: Array, statistic: Statistic = "mean") -> PendingSummary:
    """Give the moments that count, Σx and Σx² make, shape ``(3,)``."""
    return Pending((sums,), partial(_added_moments, statistic))


def share(part: Array, whole: Array) -> PendingSummary:
    """Give ``part`` of ``whole``, two counts, as a mean that merges."""
    return Pending((part, whole), _share)


def total(*counts: Array) -> PendingSummary:
    """Give a sum of counts."""
    return Pending(counts, _total)


def largest(library: ArrayLibrary, values: Array, where: Array | None, scale: Scale = "linear") -> PendingSummary:
    """Give the largest value; NaN is left out."""
    return Pending(library.largest(values, where), partial(_largest, scale))


def bins(
    library: ArrayLibrary,
    values: Array,
    where: Array | None = None,
    *,
    low: float,
    high: float,
    count: int,
    quantile: float,
    scale: Scale = "linear",
) -> PendingSummary:
    """Count the finite values in equal bins over [low, high]; values beyond the ends go into the end bins."""
    counts = library.histogram(values, where, low, high, count)
    return Pending((counts,), partial(_bins, low, high, quantile, scale))


def only_if(library: ArrayLibrary, is_observed: Array, pending: dict[str, PendingSummary]) -> dict[str, PendingSummary]:
    """Let these be absent where the flag is false, or turns out to be."""
    if library.is_host:
        return pending if is_observed else {}
    return {
        name: Pending((is_observed, *summary.numbers), partial(_only_if, summary.finish))
        for name, summary in pending.items()
    }


def _moments(statistic: Statistic, count: float, first: float, squares: float) -> Moments | None:
    return Moments(count=int(count), sum=first, sum_squares=squares, statistic=statistic) if count else None


def _added_moments(statistic: Statistic, sums: Numbers) -> Moments | None:
    return _moments(statistic, *sums.tolist())


def _share(part: float, whole: float) -> Moments | None:
    return Moments(count=whole, sum=part, sum_squares=part) if whole else None


def _total(*counts: float) -> Moments:
    return Moments(count=1, sum=sum(counts), statistic="sum")


def _largest(scale: Scale, is_known: float, top: float) -> Extreme | None:
    if not is_known:
        return None
    return Extreme(extreme=top if scale == "linear" else float(np.exp(top)))


def _bins(low: float, high: float, quantile: float, scale: Scale, counts: Numbers) -> Histogram | None:
    most = counts.max()
    if not most:
        return None
    # Counts of responses fit a byte, and the histogram is most of the record.
    small = counts.astype(np.uint8 if most <= LARGEST_BYTE else np.int32)
    return Histogram(low=low, high=high, counts=WireArray.from_numpy(small), quantile=quantile, scale=scale)


def _only_if(finish: Callable[..., Summary | None], is_observed: float, *numbers: Fetched) -> Summary | None:
    return finish(*numbers) if is_observed else None
