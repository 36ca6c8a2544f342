"""Builds the mergeable summaries of trainer_hooks.wire from arrays, wherever they are. Knows no signal.

Only finite values enter a mean or a histogram; what is not finite is counted in ``finite/bad_values`` instead.
A quantity of which nothing was observed gives None, and is then absent.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainer_hooks.arrays import Array, ArrayLibrary, Pending, Runs
from trainer_hooks.wire import Array as WireArray
from trainer_hooks.wire import Extreme, Histogram, Moments, Summary

__all__ = ["PendingSummary", "bins", "largest", "moments", "moments_by_column", "only_if", "share", "total"]

Statistic = Literal["mean", "std", "variance", "ess_frac"]
Scale = Literal["linear", "exp"]
Numbers = NDArray[np.float64]
PendingSummary: TypeAlias = Pending[Summary | None]


def moments(
    library: ArrayLibrary, values: Array, where: Array | None = None, statistic: Statistic = "mean"
) -> PendingSummary:
    """Give count, Σx and Σx² of the finite values, summed in float64."""
    kept, known = _finite(library, values, where)
    # Not a dot product: BLAS would take threads that belong to the training.
    return Pending((library.count(known), kept.sum(), (kept * kept).sum()), partial(_moments, statistic))


def moments_by_column(
    library: ArrayLibrary, values: Array, where: Array, cells: Runs, columns: int
) -> list[PendingSummary]:
    """Give the moments of each column of a table whose cells are runs of values, row by row."""
    kept, known = _finite(library, values, where)
    parts = (library.wide(known), kept, kept * kept)
    counts, sums, squares = (cells.added(part).reshape(-1, columns).sum(axis=0) for part in parts)
    return [
        Pending((counts[index], sums[index], squares[index]), partial(_moments, "mean")) for index in range(columns)
    ]


def share(part: Array, whole: Array) -> PendingSummary:
    """Give ``part`` of ``whole``, two counts, as a mean that merges."""
    return Pending((part, whole), _share)


def total(*counts: Array) -> PendingSummary:
    """Give a sum of counts."""
    return Pending(counts, _total)


def largest(library: ArrayLibrary, values: Array, where: Array, scale: Scale = "linear") -> PendingSummary:
    """Give the largest value; NaN is left out."""
    known = where & ~library.xp.isnan(values)
    top = library.xp.where(known, values, -math.inf).max() if len(values) else known.sum()
    return Pending((known.any(), top), partial(_largest, scale))


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
    kept, known = _finite(library, values, where)
    places = library.integers(library.xp.clip((kept - low) * (count / (high - low)), 0, count - 1))
    return Pending((library.histogram(places, known, count),), partial(_bins, low, high, quantile, scale))


def only_if(is_observed: Array, pending: Mapping[str, PendingSummary]) -> dict[str, PendingSummary]:
    """Let these be absent where the flag turns out to be false."""
    return {
        name: Pending((is_observed, *summary.numbers), partial(_only_if, summary.finish))
        for name, summary in pending.items()
    }


def _finite(library: ArrayLibrary, values: Array, where: Array | None) -> tuple[Array, Array]:
    """Give the values with 0 in place of what does not count, and which do."""
    wide = library.wide(values)
    known = library.xp.isfinite(wide)
    if where is not None:
        known = known & where
    return library.kept(wide, known), known


def _moments(statistic: Statistic, count: Numbers, first: Numbers, squares: Numbers) -> Moments | None:
    if not count[0]:
        return None
    return Moments(count=int(count[0]), sum=float(first[0]), sum_squares=float(squares[0]), statistic=statistic)


def _share(part: Numbers, whole: Numbers) -> Moments | None:
    if not whole[0]:
        return None
    return Moments(count=float(whole[0]), sum=float(part[0]), sum_squares=float(part[0]))


def _total(*counts: Numbers) -> Moments:
    return Moments(count=1, sum=float(sum(count[0] for count in counts)), statistic="sum")


def _largest(scale: Scale, is_known: Numbers, top: Numbers) -> Extreme | None:
    if not is_known[0]:
        return None
    return Extreme(extreme=float(top[0] if scale == "linear" else np.exp(top[0])))


def _bins(low: float, high: float, quantile: float, scale: Scale, counts: Numbers) -> Histogram | None:
    if not counts.any():
        return None
    # Counts of responses fit a byte, and the histogram is most of the record.
    small = counts.astype(np.uint8 if counts.max() <= np.iinfo(np.uint8).max else np.int32)
    return Histogram(low=low, high=high, counts=WireArray.from_numpy(small), quantile=quantile, scale=scale)


def _only_if(finish: Callable[..., Summary | None], is_observed: Numbers, *numbers: Numbers) -> Summary | None:
    return finish(*numbers) if is_observed[0] else None
