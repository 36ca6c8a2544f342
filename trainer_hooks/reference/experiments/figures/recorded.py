"""Draws the figure of recorded runs by the name of their experiment."""

from dataclasses import replace
from pathlib import Path

import plotly.graph_objects as go

from trainer_hooks.reference.experiments.catalogue import EXPERIMENTS, REGIMES
from trainer_hooks.reference.experiments.figures.draw import draw
from trainer_hooks.reference.experiments.figures.regimes import regimes_figure
from trainer_hooks.reference.experiments.tables.outcomes import read_runs
from trainer_hooks.reference.experiments.tables.question_displacement import is_probed
from trainer_hooks.reference.experiments.tables.regimes import regime_runs

__all__ = ["recorded_figure"]


def recorded_figure(name: str, *, preset: str, folder: Path, docs: Path) -> go.Figure | None:
    """Draw the recorded runs of an experiment; return None if there is none.

    Args:
        name: An experiment of the catalogue, or ``regimes``.
        preset: The regime, for the title.
        folder: The recordings of that regime.
        docs: The folder below which ``regimes`` finds the recordings of every regime.
    """
    if name == REGIMES:
        regimes = regime_runs(docs)
        return regimes_figure(regimes) if regimes else None
    experiment = replace(EXPERIMENTS[name], title=f"{EXPERIMENTS[name].title}, preset {preset}")
    runs = {arm: seeds for arm in experiment.arms if (seeds := read_runs(folder, arm))}
    if not experiment.panels:
        runs = {arm: seeds for arm, seeds in runs.items() if is_probed(seeds)}
    return draw(experiment, runs) if runs else None
