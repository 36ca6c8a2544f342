"""Runs too short for the other tables: where each stands in its first and in its last five steps."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from trainer_hooks.reference.experiments.measures import series
from trainer_hooks.reference.experiments.run_recording import Row
from trainer_hooks.reference.experiments.tables.outcomes import read_runs

__all__ = ["pilot_table"]

_EACH = 5
_COLUMNS = {
    "reward": ("reward/mean", ".2f"),
    "ln p of the first action": ("likelihood/action0", ".4f"),
    "of the second": ("likelihood/action1", ".3f"),
    "entropy": ("entropy/mean", ".3f"),
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


def _begin_and_end(rows: Sequence[Row], name: str, digits: str) -> str:
    values = series(rows, name)
    begin, end = (f"{fmean(part):{digits}}".replace("-", "−") for part in (values[:_EACH], values[-_EACH:]))
    return f"{begin} to {end}"
