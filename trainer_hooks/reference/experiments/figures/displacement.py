"""Per-question displacement (Fig. 3): what one update on a question does to its own correct responses."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from trainer_hooks.reference.experiments.figures.panels import COLOURS, Runs, dressed
from trainer_hooks.reference.experiments.measures import collapse_step, series
from trainer_hooks.reference.experiments.record import Row

__all__ = ["displacement_figure", "is_probed", "stages"]

STAGES = ("early", "middle", "late")


def is_probed(seeds: Mapping[int, Sequence[Row]]) -> bool:
    """Tell whether any of the runs was recorded with the probe."""
    return any("probe/by_question" in row for rows in seeds.values() for row in rows)


def stages(seeds: Mapping[int, Sequence[Row]]) -> dict[str, list[float]]:
    """Pool Δ(x) of eq. 3 over seeds by thirds of each run up to its collapse, or to its end where it has none."""
    pooled: dict[str, list[float]] = {stage: [] for stage in STAGES}
    for rows in seeds.values():
        end = collapse_step(series(rows, "reward/mean")) or len(rows) + 1
        for at, row in enumerate(rows[: end - 1]):
            pooled[STAGES[len(STAGES) * at // (end - 1)]] += row.get("probe/by_question", [])
    return pooled


def displacement_figure(title: str, runs: Runs) -> go.Figure:
    """Draw a dot a question, in thirds of the way to the collapse, and tell the share that fell."""
    figure = go.Figure()
    for (arm, seeds), colour in zip(runs.items(), COLOURS, strict=False):
        for stage, values in stages(seeds).items():
            fell = sum(value < 0 for value in values) / len(values) if values else float("nan")
            figure.add_trace(
                go.Box(
                    y=[float(f"{value:.4g}") for value in values],
                    name=f"{arm}, {stage}<br>{len(values)} questions, {fell:.0%} fell",
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
    return dressed(figure, title, height=480)
