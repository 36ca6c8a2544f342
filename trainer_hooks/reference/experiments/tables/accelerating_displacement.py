"""Stretches of accelerating displacement (Def. 5.1) of recorded runs, as a Markdown table."""

from collections.abc import Iterable
from pathlib import Path

from trainer_hooks.reference.experiments.measures import accelerating_stretch, collapse_step, series
from trainer_hooks.reference.experiments.tables.cells import format_signed
from trainer_hooks.reference.experiments.tables.markdown import markdown_table
from trainer_hooks.reference.experiments.tables.outcomes import read_runs

__all__ = ["acceleration_table"]


def acceleration_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each arm and seed: the longest stretch of accelerating displacement (Def. 5.1)."""
    rows = []
    for arm in arms:
        for seed, run in read_runs(folder, arm).items():
            found = accelerating_stretch(run)
            stretch = f"{found.first_step} to {found.last_step}" if found else "none"
            change = f"{format_signed(found.first, 3)} to {format_signed(found.last, 3)}" if found else "–"
            rows.append([arm, seed, stretch, change, collapse_step(series(run, "reward/mean")) or "–"])
    return markdown_table(["arm", "seed", "steps", "displacement of held-out correct ones, a step", "collapse"], rows)
