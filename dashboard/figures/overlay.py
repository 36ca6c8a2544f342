"""Draws one signal of several runs in one chart: each run a line, or the seeds of a setting as median and range."""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from statistics import median
from typing import Final, TypeVar

from dashboard.collector_client.types.runs import shown_name
from dashboard.figures.compared_runs import ALIGNMENTS, PARTICIPLES, Compared, places_of, settings_of
from dashboard.figures.curves.lines import has_digit_ticks, lone_dots, lone_points
from dashboard.figures.curves.smoothing import smooth, smoothing_unit
from dashboard.figures.layout import AXIS, base_layout, value_axis
from dashboard.theme import LIGHT

__all__ = ["COLOURS", "overlay_figure", "style_of"]

# Okabe and Ito's colours, which readers with colour blindness can tell apart; a dash pattern tells later runs apart.
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
DASHES: Final = ("solid", "dash", "dot")
NOT_ABOVE_ZERO: Final = "no value is above zero"
BINS: Final = 150  # bins of the axis, in which the seeds of a setting are combined
SHORT: Final = 0.02  # of the axis, about 12 pixels; a shorter line has dots
HIGHEST: Final = int(-math.log2(SHORT)) + 1  # the highest layer in which a line is drawn
MARGIN: Final = {"l": 56, "r": 12, "t": 8, "b": 40, "pad": 0}

Figure = dict[str, object]
Curve = Sequence[tuple[float, float | None]]
Value = TypeVar("Value")


def style_of(place: int) -> tuple[str, str]:
    """Return the colour and the dash pattern of the run with this number."""
    return COLOURS[place % len(COLOURS)], DASHES[place // len(COLOURS) % len(DASHES)]


def overlay_figure(
    signal: str,
    runs: Sequence[Compared],
    *,
    align: str,
    smoothing: float,
    is_log: bool,
    is_grouped: bool,
    zoom: tuple[float, float] | None = None,
) -> Figure:
    """Draw a signal of several runs as a plain dict that Plotly reads.

    Args:
        signal: The name of the signal; a run that does not have it is left out.
        runs: The runs.
        align: A key of `ALIGNMENTS`. Runs that never accelerated, or collapsed, are left out of that alignment.
        smoothing: The decay of the moving average per unit of its axis, 0 to 1 (exclusive).
        is_log: Whether the value axis is logarithmic.
        is_grouped: Whether runs whose names differ in the seed alone are one median with its range.
        zoom: The interval of the axis that is drawn, or None for all of it.
    """
    is_averaged = is_grouped or smoothing > 0
    curves = {
        run.place: points
        for run in runs
        if (points := _curve(run, signal, align, smoothing=smoothing, is_averaged=is_averaged))
    }
    lines = {place: _within(points, zoom) for place, points in curves.items()}
    is_smoothed = smoothing > 0
    if is_log:
        lines = {place: _above_zero(points) for place, points in lines.items()}
    if is_grouped:
        drawn = {place: points for place, points in lines.items() if points}
        traces = _draw_groups(drawn, settings_of(runs), is_smoothed=is_smoothed)
    else:
        held = {run.place: run for run in runs}
        longest = _span([point for points in lines.values() for point in points])
        traces = [
            _line(shown_name(held[place].run), place, points, is_smoothed=is_smoothed, **_standing_out(points, longest))
            for place, points in lines.items()
        ]
    values = [value for points in lines.values() for _, value in points if value is not None]
    layout = _layout(align, is_log=is_log, has_digits=is_log and has_digit_ticks(values), zoom=zoom)
    reason = NOT_ABOVE_ZERO if is_log and not values else None
    if not curves and align in PARTICIPLES:
        reason = f"no run with this signal has {PARTICIPLES[align]}"
    if reason:
        layout["annotations"] = [_note(reason)]
    return {"data": traces, "layout": layout}


def _within(points: Sequence[tuple[float, Value]], zoom: tuple[float, float] | None) -> list[tuple[float, Value]]:
    """Return the points of an interval, so that the axis of values fits them."""
    return [point for point in points if zoom is None or zoom[0] <= point[0] <= zoom[1]]


def _note(text: str) -> Figure:
    """Return a text in the middle of a chart that has no line."""
    place = {"xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5, "showarrow": False}
    return {"text": text, **place, "font": {"size": 11.5, "color": LIGHT["muted"]}}


def _above_zero(points: Curve) -> list[tuple[float, float | None]]:
    """Return the points with gaps where a logarithmic axis has no place; Plotly would draw a line to its foot."""
    return [(where, value if value is not None and value > 0 else None) for where, value in points]


def _span(points: Sequence[tuple[float, object]]) -> float:
    places = [place for place, _ in points]
    return max(places) - min(places) if places else 0.0


def _standing_out(points: Curve, longest: float) -> Figure:
    """Return the style that makes a line visible beside longer lines: it lies above them, and a short line has dots.

    So does a point between two gaps.
    """
    span = _span(points)
    if span <= SHORT * longest:
        return {"mode": "lines+markers", "marker": {"size": 5}, "zorder": HIGHEST}
    layer: Figure = {"zorder": int(math.log2(longest / span))}
    lone = lone_points([value for _, value in points])
    return layer | {"mode": "lines+markers", "marker": {"size": lone_dots(lone)}} if any(lone) else layer


def _curve(
    compared: Compared, signal: str, align: str, *, smoothing: float, is_averaged: bool
) -> list[tuple[float, float | None]]:
    """Return the points of a run's line: its extremes, or means where the line is an average."""
    series = compared.series.get(signal)
    if is_averaged:
        series = compared.means.get(signal, series)
    where = [] if series is None else places_of(compared, series, align)
    if series is None or not where:
        return []
    values: Sequence[float | None] = [value if math.isfinite(value) else None for value in series["values"]]
    if smoothing:
        counts = series.get("counts")
        unit = smoothing_unit(where, counts)
        values = smooth(where, series["values"], smoothing=smoothing, unit=unit, counts=counts).values
    return list(zip(where, values, strict=True))


def _line(
    name: str, place: int, points: Sequence[tuple[float, float | None]], *, is_smoothed: bool, **more: object
) -> Figure:
    colour, dash = style_of(place)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": escape(name, quote=False),  # Plotly reads HTML
        "meta": {"name": name} | ({"role": "average"} if is_smoothed else {}),  # assets/save_chart.js reads them
        "x": [where for where, _ in points],
        "y": [value for _, value in points],
        "line": {"color": colour, "width": 1.7, "dash": dash},
        "hovertemplate": "%{y:.4g} (smoothed)" if is_smoothed else "%{y:.4g}",
        **more,
    }


def _draw_groups(
    curves: Mapping[int, Curve], settings: Mapping[str, Sequence[Compared]], *, is_smoothed: bool
) -> list[Figure]:
    """Draw each setting as the median over its seeds, with the range from the least to the largest behind it."""
    ends = [where for points in curves.values() for where, _ in (points[0], points[-1])]
    if not ends:
        return []
    edges = [min(ends) + (max(ends) - min(ends)) * number / BINS for number in range(1, BINS + 1)]
    line = partial(_line, is_smoothed=is_smoothed)
    hover = f"%{{y:.4g}} (median{', smoothed' if is_smoothed else ''})"
    traces: list[Figure] = []
    for number, (name, seeds) in enumerate(settings.items()):
        drawn = [curves[run.place] for run in seeds if run.place in curves]
        if not drawn:
            continue
        rows = _bin(drawn, edges)
        colour, _ = style_of(number)
        hidden = {"showlegend": False, "hoverinfo": "skip", "hovertemplate": None}
        edge = {"line": {"width": 0, "color": colour}, **hidden}
        traces += [
            line(f"{name} (largest)", number, [(where, max(values)) for where, values in rows]) | edge,
            line(f"{name} (least)", number, [(where, min(values)) for where, values in rows])
            | edge
            | {"fill": "tonexty", "fillcolor": f"{colour}2e", "opacity": 0.5},
            line(f"{name} ({len(drawn)})", number, [(where, median(values)) for where, values in rows])
            | {"hovertemplate": hover},
        ]
    return traces


def _bin(curves: Sequence[Curve], edges: Sequence[float]) -> list[tuple[float, list[float]]]:
    """Return, for each bin of the axis, the mean of each run that has points in it."""
    rows: list[dict[int, list[float]]] = [{} for _ in edges]
    for number, points in enumerate(curves):
        for where, value in points:
            if value is not None and math.isfinite(value):
                rows[min(bisect_left(edges, where), len(edges) - 1)].setdefault(number, []).append(value)
    return [
        (edge, [sum(values) / len(values) for values in row.values()])
        for edge, row in zip(edges, rows, strict=True)
        if row
    ]


def _layout(align: str, *, is_log: bool, has_digits: bool, zoom: tuple[float, float] | None) -> Figure:
    title = {"text": ALIGNMENTS[align], "standoff": 6, "font": {"size": 11.5, "color": LIGHT["muted"]}}
    return {
        **base_layout(MARGIN),
        "uirevision": align,
        "xaxis": {
            **AXIS,
            "title": title,
            "nticks": 7,
            **({"tickformat": ".0%"} if align == "share" else {}),
            **({"range": list(zoom), "autorange": False} if zoom else {}),
        },
        "yaxis": value_axis(ticks=6, is_log=is_log, has_digits=has_digits),
    }
