"""Builds the wire's mergeable summaries (moments, extremes, histograms) from arrays, for any signal.

Only finite values enter a mean or a histogram; non-finite values are counted in ``finite/bad_values`` instead. A
quantity that was not observed becomes None and is then absent.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainer_hooks.arrays import Array, ArrayLibrary, Fetched, Pending
from trainer_hooks.wire import Array as WireArray
from trainer_hooks.wire import Extreme, Histogram, Moments, Summary

__all__ = [
    "PendingSummary",
    "Statistic",
    "bins",
    "find_ratios",
    "k3",
    "largest",
    "moments",
    "moments_of_sums",
    "only_if",
    "share",
    "total",
]

Statistic = Literal["mean", "std", "variance", "ess_frac"]
Scale = Literal["linear", "exp"]
Numbers = NDArray[np.float64]
# exp(300)² still fits a float64; a ratio beyond that only means that the run is dead.
LARGEST_LOG_RATIO = 300.0
LARGEST_BYTE = np.iinfo(np.uint8).max
PendingSummary: TypeAlias = Pending[Summary | None]


def moments(
    library: ArrayLibrary, values: Array, where: Array | None = None, statistic: Statistic = "mean"
) -> PendingSummary:
    """Summarise the finite values by count, Σx and Σx², summed in float64."""
    return Pending(library.moments(values, where), partial(_finish_moments, statistic))


def find_ratios(library: ArrayLibrary, log_ratios: Array) -> Array:
    """Compute likelihood ratios of two policies from the differences of their log-probabilities."""
    ratios: Array = library.xp.exp(log_ratios.clip(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))
    return ratios


def k3(library: ArrayLibrary, ratios: Array, log_ratios: Array, where: Array | None = None) -> PendingSummary:
    """Summarise the k3 estimator of a divergence: the mean of w − 1 − ln w over the ratios w."""
    return moments(library, ratios - 1 - log_ratios, where)


def moments_of_sums(sums: Array, statistic: Statistic = "mean") -> PendingSummary:
    """Summarise by moments that are summed already: count, Σx and Σx², shape ``(3,)``."""
    return Pending((sums,), partial(_finish_moments_of_sums, statistic))


def share(part: Array, whole: Array) -> PendingSummary:
    """Summarise the share ``part / whole`` of two counts as a mean."""
    return Pending((part, whole), _finish_share)


def total(*counts: Array) -> PendingSummary:
    """Summarise a sum of counts."""
    return Pending(counts, _finish_total)


def largest(library: ArrayLibrary, values: Array, where: Array | None, scale: Scale = "linear") -> PendingSummary:
    """Summarise the largest value; NaN is left out."""
    return Pending(library.largest(values, where), partial(_finish_largest, scale))


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
    """Summarise the finite values by counts in equal bins over [low, high]; values beyond go into the end bins."""
    counts = library.histogram(values, where, low, high, count)
    return Pending((counts,), partial(_finish_bins, low, high, quantile, scale))


def only_if(library: ArrayLibrary, is_observed: Array, pending: dict[str, PendingSummary]) -> dict[str, PendingSummary]:
    """Make summaries absent where the flag is False; on a device this is decided when the flag is fetched."""
    if library.is_host:
        return pending if is_observed else {}
    return {
        name: Pending((is_observed, *summary.numbers), partial(_finish_only_if, summary.finish))
        for name, summary in pending.items()
    }


def _finish_moments(statistic: Statistic, count: float, first: float, squares: float) -> Moments | None:
    return Moments(count=int(count), sum=first, sum_squares=squares, statistic=statistic) if count else None


def _finish_moments_of_sums(statistic: Statistic, sums: Numbers) -> Moments | None:
    return _finish_moments(statistic, *sums.tolist())


def _finish_share(part: float, whole: float) -> Moments | None:
    return Moments(count=whole, sum=part, sum_squares=part) if whole else None


def _finish_total(*counts: float) -> Moments:
    return Moments(count=1, sum=sum(counts), statistic="sum")


def _finish_largest(scale: Scale, is_observed: float, top: float) -> Extreme | None:
    if not is_observed:
        return None
    return Extreme(extreme=top if scale == "linear" else float(np.exp(top)))


def _finish_bins(low: float, high: float, quantile: float, scale: Scale, counts: Numbers) -> Histogram | None:
    largest_count = counts.max()
    if not largest_count:
        return None
    # Counts of responses fit a byte, and the histogram is most of the record.
    small = counts.astype(np.uint8 if largest_count <= LARGEST_BYTE else np.int32)
    return Histogram(low=low, high=high, counts=WireArray.from_numpy(small), quantile=quantile, scale=scale)


def _finish_only_if(finish: Callable[..., Summary | None], is_observed: float, *numbers: Fetched) -> Summary | None:
    return finish(*numbers) if is_observed else None
