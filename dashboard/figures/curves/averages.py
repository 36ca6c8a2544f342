"""Adds the moving average to the line of a signal; the line is then drawn pale behind it."""

from collections.abc import Sequence
from typing import Final

from dashboard.figures.curves.smoothing import smooth, smoothing_unit

__all__ = ["with_average"]

RAW_OPACITY: Final = 0.28
WIDTH: Final = 1.8

Figure = dict[str, object]


def with_average(
    drawn: Figure,
    where: Sequence[float],
    values: Sequence[float],
    *,
    colour: str,
    signal: str,
    smoothing: float,
    is_log: bool,
) -> tuple[Figure, Figure]:
    """Return the line, paled and without a hover of its own, and its moving average.

    The browser continues the average from the state in its ``meta`` (assets/panels.js).

    Args:
        drawn: The trace of the line.
        where: Positions on the axis, ascending, shape [n].
        values: The values there, shape [n].
        colour: The colour of the average.
        signal: The name of the signal.
        smoothing: The decay per `smoothing_unit`, above 0.
        is_log: Whether the value axis is logarithmic, on which an average of zero or less has no place.
    """
    unit = smoothing_unit(where)
    curve = smooth(where, values, smoothing=smoothing, unit=unit)
    state = {"smoothing": smoothing, "unit": unit, "total": curve.total, "weight": curve.weight}
    raw: Figure = {**drawn, "opacity": RAW_OPACITY, "hoverinfo": "skip", "hovertemplate": None}
    average: Figure = {
        **drawn,
        "mode": "lines",
        "x": list(where),
        "y": [value if value is None or value > 0 or not is_log else None for value in curve.values],
        "line": {"color": colour, "width": WIDTH},
        "connectgaps": True,
        "hovertemplate": "%{y:.4g} (smoothed)",
        "meta": {"role": "average", "signal": signal, "is_log": is_log, **state},
    }
    return raw, average
