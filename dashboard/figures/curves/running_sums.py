"""Computes the running sum of a signal that measures changes, thinned to the points that a screen shows."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from dashboard.collector_client.types.runs import SeriesItem

__all__ = ["running_sum"]


def running_sum(series: SeriesItem, *, max_points: int, within: tuple[int, int] | None = None) -> SeriesItem:
    """Sum a signal over its steps: S_t = Σ_{s ≤ t} v_s, without non-finite values, which are kept as they are.

    The sum is taken over every step before thinning, because a sum over a thinned series would be wrong.

    Args:
        series: Every observed step of the signal.
        max_points: How many points to keep, ≥ 2; the last step is always among them.
        within: The first and the last step of the returned points, or None for all steps.
    """
    sums = list(accumulate(value if math.isfinite(value) else 0.0 for value in series["values"]))
    shown = [total if math.isfinite(value) else value for total, value in zip(sums, series["values"], strict=True)]
    steps = series["steps"]
    if within is not None:
        part = slice(bisect_left(steps, within[0]), bisect_right(steps, within[1]))
        steps, shown = steps[part], shown[part]
    kept = _thin(shown, max_points)
    return {"signal": series["signal"], "steps": [steps[at] for at in kept], "values": [shown[at] for at in kept]}


def _thin(values: Sequence[float], most: int) -> list[int]:
    """Return which points to keep: the non-finite ones, at most half of all, and others at even distances."""
    count = len(values)
    if count <= most:
        return list(range(count))
    unusual = [at for at, value in enumerate(values) if not math.isfinite(value)]
    unusual = unusual[:: math.ceil(len(unusual) / (most // 2)) or 1]
    stride = math.ceil(count / (most - len(unusual)))
    return sorted({*unusual, *range((count - 1) % stride, count, stride)})
