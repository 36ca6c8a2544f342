"""Finds the range of values that a chart shows: all drawn values, or all without outliers."""

import math
from collections.abc import Iterable
from typing import Final

__all__ = ["inner_range", "whole_range"]

SHARE: Final = 0.01  # of the values at either end
FEW: Final = 40  # values; percentiles of fewer values mean nothing
PAD: Final = 0.06  # of the range, at either end


def whole_range(values: Iterable[float | None], *, is_log: bool) -> tuple[float, float] | None:
    """Return the ends of the value axis that shows all drawn values, in the form of `inner_range`; None without one.

    There is none either where the distance of the ends is beyond the largest number: no axis can have it.
    """
    places = _places(values, is_log=is_log)
    if not places:
        return None
    low, high = _pad(places[0], places[-1])
    return (low, high) if math.isfinite(high - low) else None


def inner_range(values: Iterable[float | None], *, is_log: bool) -> tuple[tuple[float, float], int, int] | None:
    """Return the ends of the value axis from the 1st to the 99th percentile, and how many values lie beyond.

    Args:
        values: The drawn values; values that are not finite, or not positive on a logarithmic axis, do not count.
        is_log: Whether the axis is logarithmic; its ends are then exponents of ten, as Plotly states them.

    Returns:
        The ends, the number of the values beyond them, and the number of all. None if there are few values, no value
        lies beyond the percentiles, or their distance is no number.
    """
    places = _places(values, is_log=is_log)
    if len(places) < FEW:
        return None
    cut = max(1, round(SHARE * len(places)))
    low, high = _pad(places[cut], places[-1 - cut])
    beyond = sum(place < low or place > high for place in places)
    return ((low, high), beyond, len(places)) if beyond and math.isfinite(high - low) else None


def _places(values: Iterable[float | None], *, is_log: bool) -> list[float]:
    drawn = [value for value in values if value is not None and math.isfinite(value) and (value > 0 or not is_log)]
    return sorted(map(math.log10, drawn) if is_log else drawn)


def _pad(low: float, high: float) -> tuple[float, float]:
    room = PAD * ((high - low) or abs(high) or 1.0)
    return low - room, high + room
