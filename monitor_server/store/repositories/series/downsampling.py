"""Downsampling: reduces a signal to the points that a plot can show. No stored data is removed."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from tsdownsample import MinMaxDownsampler

from monitor_server.store.repositories.series.columns import Column, Statistic

__all__ = ["downsample"]

UNUSUAL_SHARE = 4  # at most a fourth of the points are NaN or infinite, so that the others still draw the curve
LEAST_UNUSUAL = 5  # the first NaN, +∞ and −∞, and the first and the last of all


def downsample(column: Column, *, max_points: int, statistic: Statistic = "extremes") -> Column:
    """Return at most ``max_points`` points, for which a long signal is divided into sections.

    Args:
        column: Steps int64 [n] and values float64 [n].
        max_points: At least 10.
        statistic: What is shown of a section.
    """
    return _extremes(column, max_points) if statistic == "extremes" else _means(column, max_points)


def _means(column: Column, max_points: int) -> Column:
    """Return the mean of the finite values of each section, at its last step, and how many they are.

    The sections have about the same number of values each. The mean of none is NaN.
    """
    counts = np.isfinite(column.values).astype(np.int64) if column.counts is None else column.counts
    if len(column.steps) <= max_points:
        return replace(column, counts=counts)
    held = np.cumsum(np.maximum(counts, 1))
    ends = np.unique(np.searchsorted(held, held[-1] * np.arange(1, max_points + 1) / max_points)) + 1
    begins = np.array([0, *ends[:-1]])
    of_section = np.add.reduceat(counts, begins)
    shares = counts / np.maximum(np.repeat(of_section, ends - begins), 1)
    means = np.add.reduceat(np.where(counts > 0, column.values, 0.0) * shares, begins)
    means[of_section == 0] = np.nan
    return replace(column.select(ends - 1), values=means, counts=of_section)


def _extremes(column: Column, max_points: int) -> Column:
    """Keep the first, the last, and the least and the largest number of each section.

    NaN and infinities have places of their own, so that they hide no number beside them. The newest number is kept even
    if others than numbers follow it.
    """
    if len(column.steps) <= max_points:
        return column
    is_finite = np.isfinite(column.values)
    unusual = _some(column.values, np.flatnonzero(~is_finite), max(LEAST_UNUSUAL, max_points // UNUSUAL_SHARE))
    numbers = np.flatnonzero(is_finite)
    room = max_points - len(unusual) - 2
    if len(numbers) > room + 2:
        chosen = MinMaxDownsampler().downsample(column.values[numbers], n_out=room - room % 2)
        numbers = numbers[np.union1d(chosen.astype(np.int64), [0, len(numbers) - 1])]
    return column.select(np.union1d(numbers, unusual))


def _some(values: NDArray[np.float64], places: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return at most so many of the places of NaN and infinities: the first of each kind, and others evenly."""
    if len(places) <= most:
        return places
    _, firsts = np.unique(values[places], return_index=True)  # NaN is one kind
    evenly = np.linspace(0, len(places) - 1, most - len(firsts)).astype(np.int64)
    return places[np.union1d(firsts, evenly)]
