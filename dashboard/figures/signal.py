"""Draws one signal as a panel of the workspace: raw values, a smoothed curve, phases, alerts and marks."""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final, cast

from dashboard.collector_client.types.alerts import AlertItem
from dashboard.collector_client.types.runs import ExpectedRangeItem, MarkItem, PhaseItem, SeriesItem
from dashboard.figures.bands import band_shapes, bands_of
from dashboard.figures.curves.averages import with_average
from dashboard.figures.curves.lines import has_digit_ticks, signal_traces
from dashboard.figures.curves.outliers import inner_range, whole_range
from dashboard.figures.curves.panel_view import PanelView
from dashboard.figures.curves.token_axis import TokenAxis
from dashboard.figures.expected import expected_area
from dashboard.figures.layout import AXIS, base_layout, value_axis
from dashboard.figures.marks.alerts import alert_lines, gravest
from dashboard.figures.marks.events import mark_lines, mark_trace
from dashboard.figures.panels import Line
from dashboard.theme import LIGHT, PRIMARY

__all__ = ["merge", "places", "signal_figure"]

MAX_MARKS: Final = 60
MARGIN: Final = {"l": 52, "r": 10, "t": 6, "b": 26, "pad": 0}
HOVER_TITLES: Final = {"step": "<b>step %{x}</b>", "log": "<b>step %{x}</b>", "tokens": "<b>%{x:.4s} tokens</b>"}
NO_STRIP: Final = (1.0, 1.0)

Figure = dict[str, object]


def places(series: SeriesItem, axis: str, tokens: TokenAxis | None = None) -> list[float]:
    """Return the positions of the points: steps, tokens, or milliseconds since 1970, which Plotly takes as dates."""
    if tokens is not None:
        return [tokens.place(step) for step in series["steps"]]
    times = series.get("times")
    return [1000 * time for time in times] if axis == "time" and times else list(map(float, series["steps"]))


def merge(coarse: SeriesItem, fine: SeriesItem) -> SeriesItem:
    """Replace the points of a thinned series by the points of a finer series, in the interval of the finer series."""
    if not fine["steps"]:
        return coarse
    first, last = fine["steps"][0], fine["steps"][-1]
    before = bisect_left(coarse["steps"], first)
    after = bisect_left(coarse["steps"], last + 1)
    whole: SeriesItem = {
        "signal": coarse["signal"],
        "steps": [*coarse["steps"][:before], *fine["steps"], *coarse["steps"][after:]],
        "values": [*coarse["values"][:before], *fine["values"], *coarse["values"][after:]],
    }
    held, finer = coarse.get("times"), fine.get("times")
    if held and finer:
        whole["times"] = [*held[:before], *finer, *held[after:]]
    counts, finer_counts = coarse.get("counts"), fine.get("counts")
    if counts and finer_counts:
        whole["counts"] = [*counts[:before], *finer_counts, *counts[after:]]
    return whole


def signal_figure(
    series: SeriesItem,
    *,
    view: PanelView,
    phases: Sequence[PhaseItem],
    alerts: Sequence[AlertItem],
    means: SeriesItem | None = None,
    marks: Sequence[MarkItem] = (),
    expected: ExpectedRangeItem | None = None,
    tokens: TokenAxis | None = None,
) -> Figure:
    """Draw a signal as a plain dict that Plotly reads.

    Args:
        series: The signal, with times if the view's axis is time.
        view: Smoothing, axes and zoom.
        phases: The run's phases, oldest first.
        alerts: The run's alerts in any state; pending ones are left out.
        means: The means of sections of the signal, if the view is smoothed; the values, if they are not thinned.
        marks: The events of the run; the newest are drawn.
        expected: The range of the values of healthy runs, if it is known.
        tokens: The axis by tokens, if the view has that axis.
    """
    marks = marks[-MAX_MARKS:]
    where = places(series, view.axis, tokens)
    traces = _traces(series, where, view)
    if view.smoothing:
        averaged = series if means is None else means
        traces[0], average = with_average(
            traces[0],
            places(averaged, view.axis, tokens),
            averaged,
            colour=PRIMARY,
            smoothing=view.smoothing,
            is_log=view.is_log,
        )
        traces.append(average)
    if tokens is not None:
        traces[0]["meta"] |= {"tokens": tokens.signal, "is_total": tokens.is_total}  # type: ignore[operator]  # a dict
    if marks:
        traces.append(mark_trace(marks, axis="y2", height=0.06, place=_placing(series, where, view)))
    bands = bands_of(phases, series["steps"][-1])
    shapes = [*band_shapes(bands, NO_STRIP), *mark_lines(marks), *alert_lines(gravest(alerts))]
    shapes = _move(shapes, series, where, view)
    if expected is not None:
        area = expected_area(
            expected,
            values=series["values"],
            last_step=series["steps"][-1],
            colour=PRIMARY,
            is_log=view.is_log,
            place=_placing(series, where, view),
        )
        shapes += area
    seen = _in_view(series["values"], where, view)
    layout = _layout(view, shapes, has_digits=view.is_log and has_digit_ticks(seen))
    if view.zoom and where[-1] > view.zoom[1] * _per_unit(view):  # else a step that is pushed may lie above or below
        layout |= _with_range(layout, whole_range(seen, is_log=view.is_log))
    if view.is_clipped:
        layout |= _clip(layout, seen, view)
    return {"data": traces, "layout": layout}


def _traces(series: SeriesItem, where: list[float], view: PanelView) -> list[Figure]:
    line = Line(signal=series["signal"], label=series["signal"])
    drawn, marks = signal_traces(line, series, axis="y", is_log=view.is_log)
    drawn |= {"x": where, "meta": {"role": "line", "signal": series["signal"], "last_step": series["steps"][-1]}}
    by_step = dict(zip(series["steps"], where, strict=True))
    marks["x"] = [by_step[step] for step in marks["x"]]  # type: ignore[attr-defined]  # a list of steps
    return [drawn, marks]


def _move(shapes: Sequence[Figure], series: SeriesItem, where: list[float], view: PanelView) -> list[Figure]:
    """Place shapes that are stated in steps on the axis of the panel."""
    if where == series["steps"] and view.axis != "log":
        return list(shapes)
    place = _placing(series, where, view)
    return [{**shape, "x0": place(float(str(shape["x0"]))), "x1": place(float(str(shape["x1"])))} for shape in shapes]


def _placing(series: SeriesItem, where: list[float], view: PanelView) -> Callable[[float], float]:
    """Return the function that returns the position of a step on the axis of the panel.

    A logarithmic axis has no place for step 0; a shape that begins at step 0 begins at the first step that has a place.
    """
    if view.axis == "log":
        first = next((step for step in where if step > 0), 1.0)
        return lambda step: max(float(step), first)
    if where == series["steps"]:
        return float
    return lambda step: where[min(bisect_left(series["steps"], step), len(where) - 1)]


def _layout(view: PanelView, shapes: list[Figure], *, has_digits: bool) -> Figure:
    return {
        **base_layout(MARGIN),
        "shapes": shapes,
        "xaxis": {
            **AXIS,
            "type": {"time": "date", "log": "log"}.get(view.axis, "linear"),
            "nticks": 6,
            **({"range": _range(view)} if view.zoom else {"autorange": True}),
            **({"unifiedhovertitle": {"text": HOVER_TITLES[view.axis]}} if view.axis in HOVER_TITLES else {}),
        },
        "yaxis": value_axis(ticks=5, is_log=view.is_log, has_digits=has_digits),
        "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
    }


def _range(view: PanelView) -> list[float]:
    """Return the ends of the zoom as Plotly states them: times in milliseconds, a logarithmic axis in exponents."""
    ends = view.zoom or (0.0, 1.0)
    if view.axis == "log":
        return [math.log10(max(end, 1.0)) for end in ends]
    return [end * _per_unit(view) for end in ends]


def _per_unit(view: PanelView) -> float:
    """Return the length of one unit of the zoom in Plotly's units of the axis."""
    return 1000.0 if view.axis == "time" else 1.0


def _in_view(values: Sequence[float], where: Sequence[float], view: PanelView) -> list[float]:
    """Return the values in the interval that is zoomed to."""
    low, high = (end * _per_unit(view) for end in view.zoom) if view.zoom else (-math.inf, math.inf)
    return [value for value, place in zip(values, where, strict=True) if low <= place <= high]


def _with_range(layout: Figure, ends: tuple[float, float] | None) -> Figure:
    """Return the value axis with these ends; empty if there are no ends."""
    if ends is None:
        return {}
    return {"yaxis": {**cast("Figure", layout["yaxis"]), "range": list(ends), "autorange": False}}


def _clip(layout: Figure, seen: Sequence[float], view: PanelView) -> Figure:
    """Return the changes of the layout that leave out outliers: the value axis, and the number of points beyond it."""
    found = inner_range(seen, is_log=view.is_log)
    if found is None:
        return {}
    ends, beyond, count = found
    note = {
        "text": f"{beyond:,} of {count:,} drawn points outside",
        "xref": "paper",
        "yref": "paper",
        "x": 1,
        "y": 1,
        "xanchor": "right",
        "yanchor": "top",
        "showarrow": False,
        "bgcolor": LIGHT["surface"],
        "font": {"size": 11, "color": LIGHT["muted"]},
    }
    return {**_with_range(layout, ends), "annotations": [note]}
