"""Runs too short for the other tables: where each stands in its first and last steps, and at steps that all have."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from trainer_hooks.reference.experiments.measures import series
from trainer_hooks.reference.experiments.run_recording import Row
from trainer_hooks.reference.experiments.tables.outcomes import read_runs

__all__ = ["common_steps_table", "pilot_table"]

_EACH = 5
_COLUMNS = {
    "reward": ("reward/mean", ".2f"),
    "ln p of the first action": ("likelihood/action0", ".4f"),
    "of the second": ("likelihood/action1", ".3f"),
    "entropy": ("entropy/mean", ".3f"),
}
_COMMON = 10
_COMMON_COLUMNS = {
    "reward": ("reward/mean", ".2f"),
    "held-out reward": ("eval/reward", ".2f"),
    "ln p of the first action": ("likelihood/action0", ".4f"),
    "entropy": ("entropy/mean", ".2f"),
    "tokens": ("length/mean", ".0f"),
}


def pilot_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each arm and seed: its steps, its last learning rate, and signals at its begin and its end."""
    head = ["arm", "seed", "steps", "last rate", *_COLUMNS]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for arm in arms:
        for seed, rows in read_runs(folder, arm).items():
            cells = [arm, str(seed), str(len(rows)), f"{rows[-1]['lr']:.1e}"]
            cells += [_begin_and_end(rows, name, digits) for name, digits in _COLUMNS.values()]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def common_steps_table(folder: Path, arms: Iterable[str]) -> str:
    """Format means over the last 10 steps that every run has, a row for each arm and seed."""
    runs = {(arm, seed): rows for arm in arms for seed, rows in read_runs(folder, arm).items()}
    last = min(map(len, runs.values()), default=0)
    first = max(1, last - _COMMON + 1)
    head = ["arm", "seed", *(f"{name}, steps {first} to {last}" for name in _COMMON_COLUMNS)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for (arm, seed), rows in runs.items():
        cells = [_mean(series(rows[first - 1 : last], name), digits) for name, digits in _COMMON_COLUMNS.values()]
        lines.append(f"| {arm} | {seed} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _begin_and_end(rows: Sequence[Row], name: str, digits: str) -> str:
    values = series(rows, name)
    return " to ".join(_mean(part, digits) for part in (values[:_EACH], values[-_EACH:]))


def _mean(values: Sequence[float], digits: str) -> str:
    """Format the mean of what is known; no response of a step may have been correct."""
    known = [value for value in values if not math.isnan(value)]
    return f"{fmean(known):{digits}}".replace("-", "−") if known else "none"
