"""The reward of vanilla GRPO and of LLDS in every regime, a panel each."""

from collections.abc import Mapping

import plotly.graph_objects as go

from trainer_hooks.reference.experiments.figures.panels import FigurePanel, Runs, signal, steps_figure

__all__ = ["regimes_figure"]


def regimes_figure(runs: Mapping[str, Runs]) -> go.Figure:
    """Draw the moving average of the reward of every run, by preset and arm."""
    reward = signal("reward/mean")
    panels = [FigurePanel(f"reward, preset {preset}", reward, arms) for preset, arms in runs.items()]
    return steps_figure("Vanilla GRPO in every regime, beside LLDS (Fig. 1)", panels)
