"""Adds the moving average to the line of a signal; the line is then drawn pale behind it."""

from collections.abc import Sequence
from typing import Final

from dashboard.collector_client.types.runs import SeriesItem
from dashboard.figures.curves.smoothing import smooth, smoothing_unit

__all__ = ["with_average"]

RAW_OPACITY: Final = 0.28
WIDTH: Final = 1.8

Figure = dict[str, object]


def with_average(
    drawn: Figure,
    where: Sequence[float],
    means: SeriesItem,
    *,
    colour: str,
    smoothing: float,
    is_log: bool,
) -> tuple[Figure, Figure]:
    """Return the line, paled and without a hover of its own, and its moving average.

    The browser continues the average from the state in its ``meta`` (assets/panels.js).

    Args:
        drawn: The trace of the line.
        where: The positions of the means on the axis, ascending, shape [n].
        means: The means of all values of sections of the signal, since the line of a long signal shows only extremes.
        colour: The colour of the average.
        smoothing: The decay per `smoothing_unit`, above 0.
        is_log: Whether the value axis is logarithmic, on which an average of zero or less has no place.
    """
    counts = means.get("counts")
    unit = smoothing_unit(where, counts)
    curve = smooth(where, means["values"], smoothing=smoothing, unit=unit, counts=counts)
    state = {"smoothing": smoothing, "unit": unit, "total": curve.total, "weight": curve.weight, "last": curve.last}
    raw: Figure = {**drawn, "opacity": RAW_OPACITY, "hoverinfo": "skip", "hovertemplate": None}
    average: Figure = {
        **drawn,
        "mode": "lines",
        "x": list(where),
        "y": [value if value is None or value > 0 or not is_log else None for value in curve.values],
        "line": {"color": colour, "width": WIDTH},
        "connectgaps": True,
        "hovertemplate": "%{y:.4g} (smoothed)",
        "meta": {
            "role": "average",
            "signal": means["signal"],
            "is_log": is_log,
            "last_step": means["steps"][-1],
            **state,
        },
    }
    return raw, average
