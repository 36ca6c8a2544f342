"""Summary tables of recorded runs in Markdown; every seed is shown."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from trainer_hooks.reference.experiments.arms import ARMS
from trainer_hooks.reference.experiments.measures import collapse_step, rewards_of, series, smooth
from trainer_hooks.reference.experiments.run_recording import Row, read
from trainer_hooks.reference.experiments.tables.cells import median_and_range
from trainer_hooks.reference.experiments.tables.markdown import markdown_table

__all__ = ["outcome_cells", "read_runs", "share", "share_interval", "table"]

TAIL = 0.025


def read_runs(folder: Path, arm: str) -> dict[int, list[Row]]:
    """Read the rows of every recorded run of an arm, by seed."""
    paths = {int(path.name.split("-seed")[1].split(".")[0]): path for path in folder.glob(f"{arm}-seed*.jsonl.gz")}
    return {seed: read(paths[seed]) for seed in sorted(paths)}


def table(folder: Path, arms: Iterable[str] = tuple(ARMS)) -> str:
    """Format a row for each arm: collapses with the exact 95 % interval of their share, peak and final reward."""
    rows = [[arm, *outcome_cells(runs)] for arm in arms if (runs := read_runs(folder, arm))]
    return markdown_table(["arm", "collapsed", "seed: step of collapse", "peak reward", "final reward"], rows)


def outcome_cells(runs: Mapping[int, Sequence[Row]]) -> list[str]:
    """Format how the runs of an arm ended: collapses, their steps by seed, peak and final reward."""
    steps = {seed: collapse_step(series(run, "reward/mean")) for seed, run in runs.items()}
    averages = [smooth(rewards_of(run)) for run in runs.values()]
    return [
        share([step is not None for step in steps.values()]),
        ", ".join(f"{seed}: {step or '–'}" for seed, step in steps.items()),
        median_and_range([max(average) for average in averages]),
        median_and_range([average[-1] for average in averages]),
    ]


def share_interval(count: int, total: int) -> tuple[float, float]:
    """Compute the exact 95 % interval of a share (Clopper and Pearson)."""

    def at_least(share: float) -> float:
        return sum(math.comb(total, k) * share**k * (1 - share) ** (total - k) for k in range(count, total + 1))

    def at_most(share: float) -> float:
        return sum(math.comb(total, k) * share**k * (1 - share) ** (total - k) for k in range(count + 1))

    low = 0.0 if count == 0 else _root(lambda share: at_least(share) - TAIL)
    high = 1.0 if count == total else _root(lambda share: TAIL - at_most(share))
    return low, high


def _root(rising: Callable[[float], float]) -> float:
    """Find where a rising function of a share crosses 0, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return low


def share(events: Sequence[bool]) -> str:
    """Format a count of a total with the exact interval of its share."""
    low, high = share_interval(sum(events), len(events))
    return f"{sum(events)}/{len(events)} ({low:.0%} to {high:.0%})"
