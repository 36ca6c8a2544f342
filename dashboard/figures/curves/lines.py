"""Draws a signal as a line, and the values that a line cannot show (NaN, infinities, zero on a log axis) as marks."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from dashboard.collector_client.types.runs import SeriesItem
from dashboard.figures.panels import Line
from dashboard.theme import SEVERITIES

__all__ = ["has_digit_ticks", "lone_dots", "lone_points", "mark_places", "signal_traces", "spell_value"]

FEW_POINTS: Final = 40
DOT: Final = 4  # pixels
NARROW: Final = 7  # the largest value over the smallest, below which there may be no tick among 1, 2 and 5
WIDE: Final = 100
GLYPHS: Final = {"NaN": "✕", "∞": "▲", "−∞": "▼"}
NON_FINITE: Final = {"NaN": "NaN", "∞": "Infinity", "−∞": "-Infinity"}  # as JavaScript reads them

Figure = dict[str, object]


def signal_traces(line: Line, series: SeriesItem, *, axis: str, is_log: bool) -> list[Figure]:
    """Return the two traces of a signal: its line with gaps, and the marks in the gaps.

    The columns are lists and not numpy arrays, because the browser appends new steps to them.
    """
    steps, values = series["steps"], series["values"]
    is_drawn = [math.isfinite(value) and (value > 0 or not is_log) for value in values]
    common: Figure = {"type": "scatter", "xaxis": "x", "yaxis": axis, "showlegend": False}
    column = [value if ok else None for value, ok in zip(values, is_drawn, strict=True)]
    is_few, lone = len(steps) <= FEW_POINTS, lone_points(column)
    drawn = {
        **common,
        "mode": "lines+markers" if is_few or any(lone) else "lines",
        "name": escape(line.signal, quote=False),  # Plotly reads HTML
        "x": list(steps),
        "y": column,
        "line": {"color": line.colour, "width": 1.6, "dash": "2px,3px" if line.is_dotted else "solid"},
        "marker": {"size": DOT if is_few else lone_dots(lone), "color": line.colour},
        "connectgaps": False,
        "cliponaxis": not is_few,  # else the marker of the first step, on the axis, is half a marker
        "hovertemplate": "%{y:.4g}",
        "meta": {"role": "line", "signal": line.signal, "is_log": is_log, "is_sum": line.is_sum},
    }
    marked = [index for index, ok in enumerate(is_drawn) if not ok]
    heights = mark_places(values, is_drawn)
    names = [spell_value(values[index]) for index in marked]
    marks = {
        **common,
        "mode": "text",
        "name": escape(line.signal, quote=False),  # Plotly reads HTML
        "x": [steps[index] for index in marked],
        "y": [heights[index] for index in marked],
        "text": [GLYPHS.get(name, "○") for name in names],
        "hovertext": names,
        "customdata": [NON_FINITE.get(name, values[index]) for name, index in zip(names, marked, strict=True)],
        "hovertemplate": "<b>%{hovertext}</b>",
        "textfont": {"color": SEVERITIES["critical"], "size": 12},
        "cliponaxis": False,
        "meta": {"role": "marks", "signal": line.signal},
    }
    return [drawn, marks]


def lone_points(column: Sequence[float | None]) -> list[bool]:
    """Return for each point whether it lies between two gaps, where a line without dots would not show it."""
    is_drawn = [False, *(value is not None for value in column), False]
    return [
        is_held and not (before or after)
        for before, is_held, after in zip(is_drawn, is_drawn[1:], is_drawn[2:], strict=False)
    ]


def lone_dots(lone: Sequence[bool]) -> list[int] | int:
    """Return the sizes of the dots of a line of many points, of which only lone points have one."""
    return [DOT * is_lone for is_lone in lone] if any(lone) else DOT


def mark_places(values: Sequence[float], is_drawn: Sequence[bool]) -> list[float]:
    """Return a height for each point: the last drawn value before it, else the first after it, else 1."""
    drawn = (value for value, ok in zip(values, is_drawn, strict=True) if ok)
    height = next(drawn, 1.0)
    heights = []
    for value, ok in zip(values, is_drawn, strict=True):
        height = value if ok else height
        heights.append(height)
    return heights


def has_digit_ticks(values: Iterable[float]) -> bool:
    """Return whether a log axis has ticks at 1, 2 and 5 of each decade, where Plotly's own labels would overlap.

    assets/run_figure.js decides the same anew for the steps in view.
    """
    positive = [value for value in values if 0 < value < math.inf]
    return bool(positive) and NARROW * min(positive) <= max(positive) < WIDE * min(positive)


def spell_value(value: float, form: str = ".4g") -> str:
    """Format a number for readers, in four significant digits by default; others are "NaN", "∞" or "−∞"."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"
    return f"{value:{form}}".replace("-", "−")
