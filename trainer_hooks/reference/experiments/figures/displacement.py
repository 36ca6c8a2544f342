"""Displacement by question (Fig. 3): the effect of one update on a question on its own correct responses."""

import plotly.graph_objects as go

from trainer_hooks.reference.experiments.figures.panels import COLOURS, Runs, apply_layout
from trainer_hooks.reference.experiments.tables.question_displacement import DISPLACEMENT, fell_share
from trainer_hooks.reference.experiments.thirds import pool_by_third

__all__ = ["displacement_figure"]


def displacement_figure(title: str, runs: Runs) -> go.Figure:
    """Draw a dot for each question, by thirds of the way to the collapse, with the share that fell."""
    figure = go.Figure()
    for (arm, seeds), colour in zip(runs.items(), COLOURS, strict=False):
        for third, values in pool_by_third(seeds, DISPLACEMENT).items():
            figure.add_trace(
                go.Box(
                    y=[float(f"{value:.4g}") for value in values],
                    name=f"{arm}, {third}<br>{len(values)} questions, {fell_share(values):.0%} fell",
                    boxpoints="all",
                    jitter=0.6,
                    pointpos=0,
                    marker={"color": colour, "size": 4, "opacity": 0.5},
                    fillcolor="rgba(0,0,0,0)",
                    line={"color": colour, "width": 1},
                    showlegend=False,
                )
            )
    figure.add_hline(y=0, line={"color": "#858fa0", "width": 1})
    figure.update_yaxes(title_text="Δ(x), nats a response (eq. 3)")
    return apply_layout(figure, title, height=480)
