"""Pads per-response lists of different lengths to the arrays that `trainer_hooks.Rollouts` takes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["pad"]


def pad(rows: Sequence[Any], *, fill: float = 0.0) -> NDArray[np.float64]:
    """Left-align rows in an array of shape ``(B, T)``, T the length of the longest.

    Args:
        rows: One sequence of numbers a response; tensors may be on any device.
        fill: Value after the end of a row.
    """
    arrays = [np.asarray(row.detach().float().cpu() if hasattr(row, "detach") else row, dtype=float) for row in rows]
    table = np.full((len(arrays), max((len(array) for array in arrays), default=0)), fill)
    for place, array in enumerate(arrays):
        table[place, : len(array)] = array
    return table
