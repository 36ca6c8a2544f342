"""Downsampling: reduces a signal to the points that a plot can show. No stored data is removed."""

import numpy as np
from tsdownsample import NaNMinMaxDownsampler

from monitor_server.store.repositories.series.columns import Column

__all__ = ["downsample"]


def downsample(column: Column, *, max_points: int) -> Column:
    """Keep at most ``max_points`` points: the first, the last, and the least, the largest or a NaN of each section.

    Args:
        column: Steps int64 [n] and values float64 [n].
        max_points: At least 10.
    """
    if len(column.steps) <= max_points:
        return column
    room = max_points - 2 - max_points % 2
    chosen = NaNMinMaxDownsampler().downsample(column.values, n_out=room)
    kept = np.union1d(chosen.astype(np.int64), [0, len(column.steps) - 1])
    return column.select(kept)
