"""Panels over steps: an arm a colour, a seed a thin line, a cross where a run collapsed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from trainer_hooks.reference.experiments.measures import collapse_step, observed, series, smooth
from trainer_hooks.reference.experiments.run_recording import Row

__all__ = ["COLOURS", "FigurePanel", "Runs", "product", "running_sum", "signal", "steps_figure"]

Runs = Mapping[str, Mapping[int, Sequence[Row]]]
"""Rows of recorded runs by arm and seed."""

COLOURS = ("#cf2f45", "#2c6bd6", "#e08a1e", "#17967f", "#7440ad", "#566174", "#b0558f", "#5f8a1f")
"""The colours of the arms, in their order."""

COLUMNS = 2
PANEL_PIXELS = 270
WIDTH_PIXELS = 1100
MOST_GAP, ALL_GAPS = 0.11, 0.33  # between lines of panels, as a share of the height


@dataclass(frozen=True, slots=True)
class FigurePanel:
    """One quantity over steps.

    Attributes:
        label: The title above the panel.
        values: Computes the panel's values from a run's rows.
        runs: The runs that the panel shows.
        is_log: Whether its scale is logarithmic.
    """

    label: str
    values: Callable[[Sequence[Row]], list[float]]
    runs: Runs
    is_log: bool = False


def signal(name: str) -> Callable[[Sequence[Row]], list[float]]:
    """Make a panel function: a signal's moving average (weight 0.2)."""
    return lambda rows: smooth(series(rows, name))


def running_sum(name: str) -> Callable[[Sequence[Row]], list[float]]:
    """Make a panel function: a signal summed from the first step on; a step without it adds nothing."""
    return lambda rows: list(accumulate(row.get(name, 0.0) for row in rows))


def product(one: str, other: str) -> Callable[[Sequence[Row]], list[float]]:
    """Make a panel function: the moving average of the product of two signals."""
    return lambda rows: smooth([a * b for a, b in zip(series(rows, one), series(rows, other), strict=True)])


def steps_figure(title: str, panels: Sequence[FigurePanel]) -> go.Figure:
    """Draw the panels: thin lines are seeds, the thick line is their median up to the end of the shortest run.

    An arm has the same colour in every panel, and one entry of the legend.
    """
    lines = -(-len(panels) // COLUMNS)
    figure = make_subplots(
        rows=lines,
        cols=COLUMNS,
        subplot_titles=[panel.label for panel in panels],
        vertical_spacing=min(MOST_GAP, ALL_GAPS / lines) if lines > 1 else 0.0,
        horizontal_spacing=0.07,
    )
    arms = list(dict.fromkeys(arm for panel in panels for arm in panel.runs))
    colours = dict(zip(arms, COLOURS, strict=False))
    names = {arm: f"{arm} ({_seeds(arm, panels)})" for arm in arms}
    for number, panel in enumerate(panels):
        where = {"row": number // COLUMNS + 1, "col": number % COLUMNS + 1}
        for arm, seeds in panel.runs.items():
            traces = _arm(arm, seeds, panel, colours[arm], name=names.pop(arm, None))
            figure.add_traces(traces, rows=where["row"], cols=where["col"])
        figure.update_yaxes(type="log" if panel.is_log else "linear", **where)
    figure.update_xaxes(showgrid=False)
    figure.update_xaxes(title_text="step", title_standoff=4, title_font_size=13, row=lines)
    return apply_layout(figure, title, height=PANEL_PIXELS * lines + 130)


def apply_layout(figure: go.Figure, title: str, *, height: int) -> go.Figure:
    """Apply the layout that all figures share."""
    figure.update_layout(
        title={"text": title, "x": 0.01, "y": 1 - 14 / height, "yanchor": "top"},
        template="plotly_white",
        width=WIDTH_PIXELS,
        height=height,
        margin={"l": 50, "r": 20, "t": 105, "b": 40},
        legend={"orientation": "h", "y": 1 - 38 / height, "yref": "container", "yanchor": "top", "x": 0.0},
        font={"family": "Helvetica, Arial, sans-serif", "size": 13, "color": "#182130"},
    )
    figure.update_annotations(font_size=13)
    return figure


def _seeds(arm: str, panels: Sequence[FigurePanel]) -> str:
    """Word the number of an arm's seeds, which may differ between panels."""
    counts = [len(panel.runs[arm]) for panel in panels if arm in panel.runs]
    if min(counts) < max(counts):
        return f"{min(counts)} to {max(counts)} seeds"
    return "1 seed" if max(counts) == 1 else f"{max(counts)} seeds"


def _arm(
    arm: str, seeds: Mapping[int, Sequence[Row]], panel: FigurePanel, colour: str, *, name: str | None
) -> list[go.Scatter]:
    """Build an arm's lines in a panel; ``name`` is its entry of the legend, None where it has one already."""
    drawn, lines = [], []
    for seed, rows in seeds.items():
        values = [_round(value) for value in panel.values(rows)]
        lines.append(values)
        look = {"legendgroup": arm, "showlegend": False, "hovertemplate": f"{arm}, seed {seed}<br>%{{x}}: %{{y}}"}
        steps = list(range(1, len(values) + 1))
        thin = {"color": colour, "width": 1}
        drawn.append(go.Scatter(x=steps, y=values, mode="lines", line=thin, opacity=0.4, **look))
        collapse = collapse_step(series(rows, "reward/mean"))
        if collapse is not None:
            cross = {"symbol": "x", "size": 8, "color": colour}
            drawn.append(go.Scatter(x=[collapse], y=[values[collapse - 1]], mode="markers", marker=cross, **look))
    shared = range(min(map(len, lines)))
    middle = [_round(_median_of_known([line[at] for line in lines])) for at in shared]
    drawn.append(
        go.Scatter(
            x=[at + 1 for at in shared],
            y=middle,
            mode="lines",
            name=name,
            line={"color": colour, "width": 3},
            legendgroup=arm,
            showlegend=name is not None,
            hovertemplate=f"{arm}, median<br>%{{x}}: %{{y}}",
        )
    )
    return drawn


def _median_of_known(values: Sequence[float]) -> float:
    """Compute the median of the values that are not NaN; NaN where there is none."""
    known = observed(values)
    return median(known) if known else math.nan


def _round(value: float) -> float:
    return float(f"{value:.4g}")
