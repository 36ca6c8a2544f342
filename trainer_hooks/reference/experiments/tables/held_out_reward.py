"""Reward of held-out responses, as a Markdown table; a run without it is left out."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from trainer_hooks.reference.experiments.measures import observed, rewards_of
from trainer_hooks.reference.experiments.tables.cells import median_and_range
from trainer_hooks.reference.experiments.tables.markdown import markdown_table
from trainer_hooks.reference.experiments.tables.outcomes import read_runs

__all__ = ["eval_table", "held_out_rewards"]

BEST_STEPS = 20


def eval_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each arm: the mean held-out reward of the first, best and last 20 steps, over seeds."""
    rows = []
    for arm in arms:
        present = held_out_rewards(folder, arm)
        if present:
            rows.append([arm, len(present), *map(median_and_range, zip(*present, strict=True))])
    return markdown_table(["arm", "seeds", "first 20 steps", "best 20 steps", "last 20 steps"], rows)


def held_out_rewards(folder: Path, arm: str) -> list[tuple[float, float, float]]:
    """Compute each seed's mean held-out reward over the first, the best and the last 20 steps."""
    runs = [rows for rows in read_runs(folder, arm).values() if any("eval/reward" in row for row in rows)]
    means = [_stretches(rewards_of(rows, "eval/reward")) for rows in runs]
    return [found for found in means if found]


def _stretches(values: Sequence[float]) -> tuple[float, float, float] | None:
    """Compute the means of the first, the best and the last 20 steps in a row; None where nothing was observed."""
    present = observed(values)
    if len(present) < BEST_STEPS:
        return None
    means = [fmean(present[at : at + BEST_STEPS]) for at in range(len(present) - BEST_STEPS + 1)]
    return means[0], max(means), means[-1]
