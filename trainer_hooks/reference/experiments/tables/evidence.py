"""Tables of recorded runs about the mechanism: GWHES, held-out reward, searches, and accelerating displacement.

A signal that a recording does not have is shown as a dash: it was not observed.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, median

from trainer_hooks.reference.experiments.measures import accelerating_stretch, collapse_step, series
from trainer_hooks.reference.experiments.tables.outcomes import read_runs
from trainer_hooks.reference.experiments.tables.question_displacement import stages
from trainer_hooks.reference.experiments.tables.ranges import median_and_range, signed_whole

__all__ = [
    "acceleration_table",
    "eval_table",
    "gwhes_action_table",
    "gwhes_table",
    "held_out_rewards",
    "searches_table",
]

GWHES = "similarity/gwhes"
ACTIONS_SHOWN = 8
BEST_STEPS = 20


def gwhes_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each third of an arm's runs: probes, their median mean G (eq. 9), and how many exceed 0."""
    lines = ["| arm | third | probes | median G | lowest | highest | G > 0 |", "|---|---|---|---|---|---|---|"]
    for arm in arms:
        for stage, values in stages(read_runs(folder, arm), GWHES).items():
            if values:
                middle, low, high = (signed_whole(value) for value in (median(values), min(values), max(values)))
                above = sum(value > 0 for value in values)
                lines.append(f"| {arm} | {stage} | {len(values)} | {middle} | {low} | {high} | {above}/{len(values)} |")
    return "\n".join(lines)


def gwhes_action_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each action and third of an arm's runs: probes, median mean G, and how many exceed 0.

    Recordings that have G summed over actions only are left out.
    """
    lines = ["| arm | action | third | probes | median G | G > 0 |", "|---|---|---|---|---|---|"]
    for arm in arms:
        seeds = read_runs(folder, arm)
        for action in range(ACTIONS_SHOWN):
            for stage, values in stages(seeds, f"{GWHES}_action{action}").items():
                if values:
                    above = sum(value > 0 for value in values)
                    cells = f"{len(values)} | {signed_whole(median(values))} | {above}/{len(values)}"
                    lines.append(f"| {arm} | {action} | {stage} | {cells} |")
    return "\n".join(lines)


def eval_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each arm: the mean held-out reward of the first, best and last 20 steps, over seeds."""
    lines = ["| arm | seeds | first 20 steps | best 20 steps | last 20 steps |", "|---|---|---|---|---|"]
    for arm in arms:
        present = held_out_rewards(folder, arm)
        if present:
            columns = " | ".join(median_and_range(values) for values in zip(*present, strict=True))
            lines.append(f"| {arm} | {len(present)} | {columns} |")
    return "\n".join(lines)


def held_out_rewards(folder: Path, arm: str) -> list[tuple[float, float, float]]:
    """Compute each seed's mean held-out reward over the first, the best and the last 20 steps."""
    means = [_stretches(series(rows, "eval/reward")) for rows in read_runs(folder, arm).values()]
    return [found for found in means if found]


def searches_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each arm: valid searches a response (Fig. 9) over the first 50 steps, the last 50 and all."""
    lines = ["| arm | seeds | first 50 steps | last 50 steps | all steps |", "|---|---|---|---|---|"]
    for arm in arms:
        found = []
        for rows in read_runs(folder, arm).values():
            calls = [row["tools/calls"] * row["tools/valid_frac"] for row in rows if "tools/valid_frac" in row]
            if calls:
                found.append((fmean(calls[:50]), fmean(calls[-50:]), fmean(calls)))
        if found:
            columns = " | ".join(median_and_range(values) for values in zip(*found, strict=True))
            lines.append(f"| {arm} | {len(found)} | {columns} |")
    return "\n".join(lines)


def acceleration_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each arm and seed: the longest stretch of accelerating displacement (Def. 5.1)."""
    head = "| arm | seed | steps | displacement of held-out correct ones, a step | collapse |"
    lines = [head, "|---|---|---|---|---|"]
    for arm in arms:
        for seed, rows in read_runs(folder, arm).items():
            found = accelerating_stretch(rows)
            stretch = f"{found.first_step} to {found.last_step}" if found else "none"
            change = f"{_small(found.first)} to {_small(found.last)}" if found else "–"
            collapse = collapse_step(series(rows, "reward/mean")) or "–"
            lines.append(f"| {arm} | {seed} | {stretch} | {change} | {collapse} |")
    return "\n".join(lines)


def _stretches(values: Sequence[float]) -> tuple[float, float, float] | None:
    """Compute the means of the first, the best and the last 20 steps in a row; None where nothing was observed."""
    present = [value for value in values if not math.isnan(value)]
    if len(present) < BEST_STEPS:
        return None
    means = [fmean(present[at : at + BEST_STEPS]) for at in range(len(present) - BEST_STEPS + 1)]
    return means[0], max(means), means[-1]


def _small(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")
