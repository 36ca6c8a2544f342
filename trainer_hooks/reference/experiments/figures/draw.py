"""Draws the figure of an experiment from its recorded runs."""

from collections.abc import Callable, Sequence

import plotly.graph_objects as go

from trainer_hooks.reference.experiments.catalogue import Experiment
from trainer_hooks.reference.experiments.figures.displacement import displacement_figure
from trainer_hooks.reference.experiments.figures.panels import (
    FigurePanel,
    Runs,
    product,
    running_sum,
    signal,
    steps_figure,
)
from trainer_hooks.reference.experiments.run_recording import Row

__all__ = ["draw"]


def draw(experiment: Experiment, runs: Runs) -> go.Figure:
    """Draw an experiment from the arms that have runs."""
    if not experiment.panels:
        return displacement_figure(experiment.title, runs)
    return steps_figure(experiment.title, [_panel(label, text, runs) for label, text in experiment.panels.items()])


def _panel(label: str, text: str, runs: Runs) -> FigurePanel:
    what, _, arms = text.partition(" of ")
    shown = {arm: seeds for arm, seeds in runs.items() if not arms or arm in arms.split()}
    return FigurePanel(label, _recipe(what.removeprefix("log ")), shown, is_log=what.startswith("log "))


def _recipe(text: str) -> Callable[[Sequence[Row]], list[float]]:
    if text.startswith("sum "):
        return running_sum(text.removeprefix("sum "))
    first, _, second = text.partition(" * ")
    return product(first, second) if second else signal(first)
