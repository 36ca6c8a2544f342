"""Vanilla GRPO and LLDS in every recorded regime; the paper has four models instead (Fig. 1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainer_hooks.reference.experiments.run_recording import Row
from trainer_hooks.reference.experiments.tables.markdown import markdown_table
from trainer_hooks.reference.experiments.tables.outcomes import outcome_cells, read_runs

__all__ = ["Regime", "regime_runs", "regimes_table"]


@dataclass(frozen=True, slots=True)
class Regime:
    """A preset in which vanilla GRPO was recorded.

    Attributes:
        folder: Folder of its recordings below ``docs``.
        grpo: Name of the arm with vanilla GRPO.
        llds: Name of the arm with LLDS at λ = 0.1.
    """

    folder: str
    grpo: str = "grpo"
    llds: str = "llds-0.1"


RECORDED: Final[Mapping[str, Regime]] = {
    "stubborn": Regime("experiments/runs-stubborn"),
    "release-peak": Regime("experiments/runs-release-peak"),
    "spiral": Regime("experiments/runs-spiral"),
    "demo": Regime("experiments/runs"),
    "constant": Regime("experiments/runs-constant"),
    "long-thoughts": Regime("experiments/runs-long-thoughts"),
    "pretrained": Regime("probes/runs-pretrained"),
    "pretrained-short": Regime("probes/runs-pretrained-short", grpo="grpo-2e-4", llds="llds-2e-4"),
}


def regime_runs(docs: Path) -> dict[str, dict[str, dict[int, list[Row]]]]:
    """Read the runs of vanilla GRPO and of LLDS of every regime below ``docs``, by preset, arm and seed."""
    found: dict[str, dict[str, dict[int, list[Row]]]] = {}
    for preset, regime in RECORDED.items():
        arms = {"grpo": regime.grpo, "llds, λ = 0.1": regime.llds}
        runs = {name: seeds for name, arm in arms.items() if (seeds := read_runs(docs / regime.folder, arm))}
        if runs:
            found[preset] = runs
    return found


def regimes_table(docs: Path) -> str:
    """Format a row for each regime and arm: the fewest and most steps trained, and the columns of `outcomes.table`."""
    rows = [
        [preset, arm, f"{min(map(len, seeds.values()))} to {max(map(len, seeds.values()))}", *outcome_cells(seeds)]
        for preset, runs in regime_runs(docs).items()
        for arm, seeds in runs.items()
    ]
    columns = ["preset", "arm", "steps", "collapsed", "seed: step of collapse", "peak reward", "final reward"]
    return markdown_table(columns, rows)
