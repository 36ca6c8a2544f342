"""Draws the range of the values of healthy runs as a pale area behind a curve."""

import math
from collections.abc import Callable, Iterable
from typing import Final

from dashboard.collector_client.types.runs import ExpectedRangeItem

__all__ = ["expected_area"]

OPACITY: Final = 0.16
ROOM: Final = 0.6  # of the curve's height; the area extends the axis by at most this above and below

Figure = dict[str, object]


def expected_area(
    expected: ExpectedRangeItem,
    *,
    values: Iterable[float],
    last_step: int,
    colour: str,
    axis: str = "y",
    is_log: bool = False,
    place: Callable[[float], float] = float,
) -> list[Figure]:
    """Return the area as one shape of Plotly, or no shape if the run has no step in it.

    The area is cut off a little beyond the curve and at the run's last step. Plotly fits an axis to shapes too, so a
    wide range would otherwise make the curve small.

    Args:
        expected: The range of the signal.
        values: The curve's values.
        last_step: The run's last step.
        colour: The colour of the curve.
        axis: The value axis.
        is_log: Whether the value axis is logarithmic.
        place: Returns the position of a step on the horizontal axis.
    """
    limits = _limits(values, is_log=is_log)
    if limits is None:
        return []
    upper: list[tuple[float, float]] = []
    lower: list[tuple[float, float]] = []
    ends = zip(expected["steps"], expected["steps"][1:], expected["low"], expected["high"], strict=False)
    for begin, end, low, high in ends:
        if begin > last_step:
            break
        bottom, top = (min(max(value, limits[0]), limits[1]) for value in (low, high))
        for step in (begin, min(end, max(last_step, begin + 1))):
            upper.append((place(step), top))
            lower.append((place(step), bottom))
    if not upper:
        return []
    corners = (f"{x:.13g},{y:.6g}" for x, y in (*upper, *reversed(lower)))
    return [
        {
            "type": "path",
            "name": "expected",
            "layer": "below",
            "xref": "x",
            "yref": axis,
            "path": f"M{'L'.join(corners)}Z",
            "line": {"width": 0},
            "fillcolor": colour,
            "opacity": OPACITY,
        }
    ]


def _limits(values: Iterable[float], *, is_log: bool) -> tuple[float, float] | None:
    """Return the lowest and the highest value to which the area is drawn."""
    drawn = [value for value in values if math.isfinite(value) and (value > 0 or not is_log)]
    if not drawn:
        return None
    low, high = min(drawn), max(drawn)
    if is_log:
        factor = (high / low) ** ROOM if high > low else 2.0
        return low / factor, high * factor
    room = ROOM * ((high - low) or abs(high) or 1.0)
    return low - room, high + room
