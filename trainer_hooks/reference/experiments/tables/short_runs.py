"""Runs too short for the other tables: their signals in their first and last steps, and at steps that all have."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from trainer_hooks.reference.experiments.measures import rewards_of, series
from trainer_hooks.reference.experiments.run_recording import Row
from trainer_hooks.reference.experiments.tables.cells import mean_of_known
from trainer_hooks.reference.experiments.tables.markdown import markdown_table
from trainer_hooks.reference.experiments.tables.outcomes import read_runs

__all__ = ["common_steps_table", "pilot_table"]

_AT_BOTH_ENDS = 5
_COLUMNS = {
    "reward": ("reward/mean", ".2f"),
    "ln p of the first action": ("likelihood/action0", ".4f"),
    "of the second": ("likelihood/action1", ".3f"),
    "entropy": ("entropy/mean", ".3f"),
    "groups without contrast": ("reward/zero_std_frac", ".2f"),
    "gradient norm": ("grad/norm", ".3f"),
}
_COMMON_STEPS = 10
_COMMON_COLUMNS = {
    "reward": ("reward/mean", ".2f"),
    "held-out reward": ("eval/reward", ".2f"),
    "ln p of the first action": ("likelihood/action0", ".4f"),
    "entropy": ("entropy/mean", ".2f"),
    "tokens": ("length/mean", ".0f"),
}


def pilot_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each arm and seed: its steps, its last learning rate, and signals at its begin and its end."""
    rows = [
        [arm, seed, len(run), _last_rate(run), *(_begin_and_end(run, *column) for column in _COLUMNS.values())]
        for arm in arms
        for seed, run in read_runs(folder, arm).items()
    ]
    return markdown_table(["arm", "seed", "steps", "last rate", *_COLUMNS], rows)


def common_steps_table(folder: Path, arms: Iterable[str]) -> str:
    """Format means over the last 10 steps that every run has, a row for each arm and seed."""
    runs = {(arm, seed): run for arm in arms for seed, run in read_runs(folder, arm).items()}
    last = min(map(len, runs.values()), default=0)
    first = max(1, last - _COMMON_STEPS + 1)
    rows = [
        [
            *of,
            *(mean_of_known(_values(run, name)[first - 1 : last], digits) for name, digits in _COMMON_COLUMNS.values()),
        ]
        for of, run in runs.items()
    ]
    return markdown_table(["arm", "seed", *(f"{name}, steps {first} to {last}" for name in _COMMON_COLUMNS)], rows)


def _last_rate(rows: Sequence[Row]) -> str:
    """Format the last learning rate; the step at which a run diverged has none."""
    return next((f"{row['lr']:.1e}" for row in reversed(rows) if "lr" in row), "none")


def _values(rows: Sequence[Row], name: str) -> list[float]:
    return rewards_of(rows) if name == "reward/mean" else series(rows, name)


def _begin_and_end(rows: Sequence[Row], name: str, digits: str) -> str:
    values = _values(rows, name)
    return " to ".join(mean_of_known(part, digits) for part in (values[:_AT_BOTH_ENDS], values[-_AT_BOTH_ENDS:]))
