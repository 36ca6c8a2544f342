"""Draws the figure of the run page: panels on one shared step axis, with phases, alerts and marks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from dashboard.collector_client.types.alerts import AlertItem
from dashboard.collector_client.types.runs import ExpectedRangeItem, MarkItem, PhaseItem, SeriesItem
from dashboard.figures.bands import band_shapes, bands_of, strip_labels
from dashboard.figures.curves.averages import with_average
from dashboard.figures.curves.lines import has_digit_ticks, signal_traces
from dashboard.figures.expected import expected_area
from dashboard.figures.layout import AXIS, base_layout, value_axis
from dashboard.figures.marks.alerts import alert_lines, alert_trace, gravest
from dashboard.figures.marks.events import mark_lines, mark_trace
from dashboard.figures.panels import PANELS, Line, SignalPanel
from dashboard.theme import LIGHT

__all__ = ["PanelRow", "rows_of", "run_figure"]

PANEL_PIXELS: Final = 124
MISSING_PIXELS: Final = 58
TITLE_PIXELS: Final = 32
STRIP_PIXELS: Final = 20
ALERT_PIXELS: Final = 20
MARK_PIXELS: Final = 18  # above the alerts, where there are marks
MARGIN: Final = {"l": 52, "r": 14, "t": 6, "b": 44, "pad": 0}
STROKES: Final = {False: "━", True: "┅"}
FLOOR_PIXELS: Final = 8
FEW_STEPS: Final = 10

Figure = dict[str, object]


@dataclass(frozen=True, slots=True)
class PanelRow:
    """The place of a panel, as fractions of the plot's height, and its y axis (None if it was not observed)."""

    panel: SignalPanel
    bottom: float
    top: float
    axis: str | None


def run_figure(
    *,
    series: Mapping[str, SeriesItem],
    phases: Sequence[PhaseItem],
    alerts: Sequence[AlertItem],
    marks: Sequence[MarkItem] = (),
    panels: Sequence[SignalPanel] = PANELS,
    expected: Mapping[str, ExpectedRangeItem] | None = None,
    smoothing: float = 0.0,
    means: Mapping[str, SeriesItem] | None = None,
    last_step: int = 0,
) -> Figure:
    """Draw a run as a plain dict that Plotly reads.

    Args:
        series: Observed signals by name; running sums are computed already.
        phases: Phases, oldest first.
        alerts: Alerts in any state; pending ones are left out.
        marks: The events of the run.
        panels: The panels to draw, from the top.
        expected: The ranges of the values of healthy runs, by signal.
        smoothing: The decay of the moving average that is drawn over the values, 0 (none) to 1 (exclusive).
        means: The means of sections of the signals, if there is smoothing; the values, of those that are not thinned.
        last_step: The run's last step, with which the figure ends if no vital sign is observed.
    """
    head = _head_pixels(marks)
    rows, height = rows_of(panels, series, marks)
    plot = height - MARGIN["t"] - MARGIN["b"]
    strip = (1 - (head + STRIP_PIXELS) / plot, 1 - head / plot)
    steps = [step for held in series.values() for step in (held["steps"][0], held["steps"][-1])]
    steps = steps or [*(span["from_step"] for span in phases[:1]), last_step]
    bands = bands_of(phases, max(steps))
    opened = [alert for alert in alerts if alert["state"] != "pending"]
    observed = [row for row in rows if row.axis is not None]
    traces = [
        trace
        for row in observed
        for line in row.panel.lines
        if line.signal in series
        for trace in _traces(line, series[line.signal], row, smoothing, (means or series).get(line.signal))
    ]
    return {
        "data": [
            alert_trace(opened, axis="y"),
            *([mark_trace(marks, axis="y", height=1.5)] if marks else []),
            *traces,
        ],
        "layout": {
            **base_layout(MARGIN, namelength=-1),
            "height": height,
            "hoversubplots": "axis",
            "xaxis": _step_axis(min(steps), max(steps)),
            "yaxis": {"domain": [strip[1], 1], "range": [0, head / ALERT_PIXELS], "visible": False, "fixedrange": True},
            **{f"yaxis{row.axis[1:]}": _value_axis(row, series) for row in observed if row.axis},
            "shapes": [
                *band_shapes(bands, strip),
                *mark_lines(marks),
                *alert_lines(gravest(alerts)),
                *(_missing_box(r) for r in rows if not r.axis),
                *_expected_areas(observed, series, expected or {}),
            ],
            "annotations": [*strip_labels(bands, strip), *(note for row in rows for note in _notes(row, series))],
        },
    }


def _traces(line: Line, series: SeriesItem, row: PanelRow, smoothing: float, means: SeriesItem | None) -> list[Figure]:
    """Return the traces of a line; a running sum is smooth already."""
    is_log = row.panel.is_log
    drawn, marks = signal_traces(line, series, axis=str(row.axis), is_log=is_log)
    if not smoothing or line.is_sum:
        return [drawn, marks]
    averaged = series if means is None else means
    raw, average = with_average(
        drawn,
        averaged["steps"],
        averaged,
        colour=line.colour,
        smoothing=smoothing,
        is_log=is_log,
    )
    return [raw, marks, average]


def _expected_areas(
    rows: Sequence[PanelRow], series: Mapping[str, SeriesItem], expected: Mapping[str, ExpectedRangeItem]
) -> Iterator[Figure]:
    """Yield the ranges of the values of healthy runs; a running sum has no range."""
    for row in rows:
        for line in row.panel.lines:
            if line.signal in series and line.signal in expected and not line.is_sum:
                held = series[line.signal]
                yield from expected_area(
                    expected[line.signal],
                    values=held["values"],
                    last_step=2 * held["steps"][-1],  # the figure is drawn anew when the run is twice as long
                    colour=line.colour,
                    axis=str(row.axis),
                    is_log=row.panel.is_log,
                )


def _head_pixels(marks: Sequence[MarkItem]) -> int:
    return ALERT_PIXELS + (MARK_PIXELS if marks else 0)


def rows_of(
    panels: Sequence[SignalPanel], series: Mapping[str, SeriesItem], marks: Sequence[MarkItem] = ()
) -> tuple[list[PanelRow], int]:
    """Stack the panels below the strip; a panel that was not observed takes less room.

    Returns:
        The rows, from the top, and the figure's height in pixels.
    """
    heights = [PANEL_PIXELS if panel.is_observed(series) else MISSING_PIXELS for panel in panels]
    head = _head_pixels(marks)
    plot = head + STRIP_PIXELS + sum(heights) + TITLE_PIXELS * len(panels) + FLOOR_PIXELS
    rows, top, axes = [], head + STRIP_PIXELS, iter(range(2, len(panels) + 2))
    for panel, pixels in zip(panels, heights, strict=True):
        top += TITLE_PIXELS
        axis = f"y{next(axes)}" if panel.is_observed(series) else None
        rows.append(PanelRow(panel, 1 - (top + pixels) / plot, 1 - top / plot, axis))
        top += pixels
    return rows, plot + MARGIN["t"] + MARGIN["b"]


def _step_axis(first: int, last: int) -> Figure:
    return {
        "anchor": "free",
        "position": 0,
        "title": {"text": "optimiser step", "standoff": 6, "font": {"size": 11.5, "color": LIGHT["muted"]}},
        **AXIS,
        "linecolor": LIGHT["faint"],
        "showline": True,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": LIGHT["faint"],
        "unifiedhovertitle": {"text": "<b>step %{x}</b>"},
        # Plotly would put ticks between few steps.
        "tickvals": [*range(first, max(last, first + 1) + 1)] if last - first < FEW_STEPS else None,
        "autorangeoptions": {"clipmin": first, "clipmax": max(last, first + 1)},
        "showspikes": True,
        "spikemode": "across",
        "spikesnap": "hovered data",
        "spikethickness": 1,
        "spikedash": "solid",
        "spikecolor": LIGHT["faint"],
    }


def _value_axis(row: PanelRow, series: Mapping[str, SeriesItem]) -> Figure:
    is_log = row.panel.is_log
    axis = value_axis(ticks=5, is_log=is_log, has_digits=is_log and has_digit_ticks(_values(row, series)))
    return {**axis, "domain": [row.bottom, row.top], "anchor": "x"}


def _values(row: PanelRow, series: Mapping[str, SeriesItem]) -> Iterator[float]:
    return (value for line in row.panel.lines if line.signal in series for value in series[line.signal]["values"])


def _notes(row: PanelRow, series: Mapping[str, SeriesItem]) -> list[Figure]:
    """Return the panel's title, which is also its legend, and the data that an unobserved panel needs."""
    faint = LIGHT["faint"]
    seen = [line for line in row.panel.lines if line.signal in series]
    legend = [f'<span style="color:{line.colour}">{STROKES[line.is_dotted]} {line.label}</span>' for line in seen]
    unit = [f'<span style="color:{faint}">{row.panel.unit}</span>'] if row.panel.unit else []
    parts = [f"<b>{row.panel.title}</b>", *(legend + unit if row.axis else [])]
    place: Figure = {"xref": "paper", "yref": "paper", "showarrow": False}
    title: Figure = {
        **place,
        "name": "panel-title",
        "text": "&nbsp;&nbsp;".join(parts),
        "x": 0,
        "y": row.top,
        "xanchor": "left",
        "yanchor": "bottom",
        "yshift": 2,
        "font": {"size": 12.5},
    }
    if row.axis:
        return [title]
    missing: Figure = {
        **place,
        "name": "not-observed",
        "text": f"not observed - needs {row.panel.level}:<br>{row.panel.needs}<br>{_code(row.panel)}",
        "x": 0.5,
        "y": (row.bottom + row.top) / 2,
        "xanchor": "center",
        "yanchor": "middle",
        "font": {"size": 11.5, "color": LIGHT["muted"]},
    }
    return [title, missing]


def _code(panel: SignalPanel) -> str:
    return f'<span style="font-family:monospace;font-size:10.5px">{escape(panel.code, quote=False)}</span>'


def _missing_box(row: PanelRow) -> Figure:
    return {
        "type": "rect",
        "name": "not-observed",
        "layer": "below",
        "xref": "paper",
        "yref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": row.bottom,
        "y1": row.top,
        "line": {"color": LIGHT["faint"], "width": 1, "dash": "dot"},
    }
