"""Declares the vital signs: which signals the run page draws in which panel, and which data they need.

Signal names and capability levels are those of docs/signals.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dashboard.collector_client.types.runs import SeriesItem
from dashboard.theme import PRIMARY, SECONDARY

__all__ = ["PANELS", "SUMMED_SIGNAL", "Line", "SignalPanel", "signal_names"]

SUMMED_SIGNAL: Final = "entropy/paired_delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One signal as a line; ``is_sum`` if the panel shows its running sum over updates.

    A line is dotted where two signals often have equal values, so that both can be seen.
    """

    signal: str
    label: str
    colour: str = PRIMARY
    is_sum: bool = False
    is_dotted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalPanel:
    """One row of the figure: its lines, their unit, and the capability level that makes them observed.

    ``code`` is the line of a training script that sends them.
    """

    title: str
    unit: str
    level: str
    needs: str
    code: str
    lines: tuple[Line, ...]
    is_log: bool = False

    def is_observed(self, series: Mapping[str, SeriesItem]) -> bool:
        """Return whether any of the panel's signals was observed."""
        return any(line.signal in series for line in self.lines)


PANELS: Final = (
    SignalPanel(
        title="Likelihood",
        unit="nats/token",
        level="L2",
        needs="log-probabilities and rewards of the rollouts",
        code="rollouts=Rollouts(logprobs, mask, rewards)",
        lines=(
            Line(signal="likelihood/correct", label="correct"),
            Line(signal="likelihood/incorrect", label="incorrect", colour=SECONDARY),
        ),
    ),
    SignalPanel(
        title="Reward",
        unit="",
        level="L1",
        needs="the trainer's own metrics",
        code='log_step(step, {"reward/mean": reward})',
        lines=(
            Line(signal="reward/mean", label="mean"),
            Line(signal="reward/correct_frac", label="share correct", colour=SECONDARY, is_dotted=True),
        ),
    ),
    SignalPanel(
        title="Gradient norm",
        unit="log",
        level="L1",
        needs="the trainer's own metrics",
        code="log_step(step, grad_norm=norm)",
        lines=(Line(signal="grad/norm", label="before clipping"),),
        is_log=True,
    ),
    SignalPanel(
        title="Entropy",
        unit="nats/token",
        level="L3",
        needs="token entropies from the loss",
        code="Rollouts(..., entropies=entropies)",
        lines=(Line(signal="entropy/mean", label="mean"),),
    ),
    SignalPanel(
        title="Paired entropy change",
        unit="nats",
        level="L4",
        needs="re-scoring before and after an update",
        code="log_step(step, paired=paired)",
        lines=(Line(signal=SUMMED_SIGNAL, label="running sum", is_sum=True),),
    ),
    SignalPanel(
        title="Likelihood ratio",
        unit="log",
        level="L3",
        needs="log-probabilities from the loss",
        code="Rollouts(..., old_logprobs=old)",
        lines=(
            Line(signal="ratio/max", label="largest"),
            Line(signal="ratio/p999", label="99.9 %", colour=SECONDARY),
        ),
        is_log=True,
    ),
)


def signal_names(panels: tuple[SignalPanel, ...]) -> list[str]:
    """Return the names of all signals that the panels draw, in order."""
    return [line.signal for panel in panels for line in panel.lines]
