"""Computes a time-weighted exponential moving average, for curves that are noisy or unevenly spaced."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Smoothed", "smooth", "smoothing_unit"]

MOST_UNITS: Final = 1000


@dataclass(frozen=True, slots=True)
class Smoothed:
    """A smoothed curve, and the state from which the browser continues it.

    Args:
        values: One value per point; None where the point is not finite.
        total: The decayed sum of the values at the last finite point.
        weight: The decayed number of the values there.
        last: The place of that point.
    """

    values: list[float | None]
    total: float
    weight: float
    last: float


def smoothing_unit(places: Sequence[float], counts: Sequence[int] | None = None) -> float:
    """Return the distance to which the smoothing applies once: the mean distance of two values.

    A long curve has at most 1,000 units, so that one setting fits runs of any length. The values are counted, and not
    the points of a thinned curve, so that the unit does not depend on how far a curve is thinned.

    Args:
        places: Positions on the axis, ascending, shape [n].
        counts: Of how many values each point is the mean, shape [n]; by default, of one.
    """
    span = places[-1] - places[0] if places else 0.0
    number = max(2, len(places) if counts is None else sum(counts))
    return span / min(MOST_UNITS, number - 1) or 1.0 if span > 0 else 1.0  # a part of the smallest span is 0


def smooth(
    places: Sequence[float],
    values: Sequence[float],
    *,
    smoothing: float,
    unit: float,
    counts: Sequence[int] | None = None,
) -> Smoothed:
    """Average each value with those before it, the nearer ones with more weight.

    y_t = Σ_{i ≤ t} n_i w_i v_i / Σ_{i ≤ t} n_i w_i with w_i = s^((x_t − x_i) / unit). The weight depends on the
    distance on the axis and not on the number of points between, so a gap in the curve is treated correctly. The
    division removes the bias towards the beginning.

    Args:
        places: Positions on the axis, ascending, shape [n].
        values: Values, shape [n]; those that are not finite are left out.
        smoothing: The decay s per unit, 0 (none) to 1 (exclusive).
        unit: A distance on the axis, > 0; see `smoothing_unit`.
        counts: Of how many values n each point is the mean, shape [n]; by default, of one.

    Returns:
        The curve and its state at the last finite point.
    """
    total = weight = 0.0
    last = places[0] if places else 0.0
    curve: list[float | None] = []
    for place, value, count in zip(places, values, counts or [1] * len(places), strict=True):
        if not math.isfinite(value) or count < 1:
            curve.append(None)
            continue
        decay = smoothing ** ((place - last) / unit) if place > last else 1.0
        total, weight, last = total * decay + count * value, weight * decay + count, place
        if not math.isfinite(total):  # values near the largest number; the average begins anew
            total, weight = value, 1.0
        curve.append(total / weight)
    return Smoothed(curve, total, weight, last)
