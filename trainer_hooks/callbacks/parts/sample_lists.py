"""Lays per-response lists of different lengths out as the padded arrays that `trainer_hooks.Rollouts` takes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["padded"]


def padded(rows: Sequence[Any], *, fill: float = 0.0) -> NDArray[np.float64]:
    """Give an array ``(B, T)`` of rows put left and filled up to the longest; tensors on any device are taken.

    Args:
        rows: One sequence of numbers a response.
        fill: Put where a row has ended.
    """
    arrays = [np.asarray(row.detach().float().cpu() if hasattr(row, "detach") else row, dtype=float) for row in rows]
    table = np.full((len(arrays), max((len(array) for array in arrays), default=0)), fill)
    for place, array in enumerate(arrays):
        table[place, : len(array)] = array
    return table
