"""The table of the fall of correct responses before their own update, with and without an updated wrong sibling."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from trainer_hooks.forks import Estimate
from trainer_hooks.reference.experiments.tables.cells import format_signed
from trainer_hooks.reference.experiments.tables.markdown import markdown_table
from trainer_hooks.reference.experiments.tables.outcomes import read_runs
from trainer_hooks.reference.experiments.thirds import THIRDS, rows_by_third

__all__ = ["siblings_table"]

_STRATA = {
    "d, a wrong sibling updated": "siblings/lost_after_wrong",
    "d, none updated": "siblings/lost_before_wrong",
    "difference within minibatches": "siblings/lost_within",
}


def siblings_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each third of an arm's runs: d in both strata, and their difference within minibatches.

    d = ln π_old − ln π_θ just before the response's own update, nats a response. Means over steps with 95 % intervals
    (`Estimate`, steps taken as independent), over the steps that have the difference. A difference above 0 is
    displacement inside the group; equal strata refute it.
    """
    rows = []
    for arm in arms:
        seeds = read_runs(folder, arm)
        pooled: dict[str, list[tuple[float, ...]]] = {third: [] for third in THIRDS}
        for third, row in rows_by_third(seeds):
            if all(name in row for name in _STRATA.values()):
                pooled[third].append(tuple(row[name] for name in _STRATA.values()))
        for third, found in pooled.items():
            if found:
                rows.append([arm, third, len(seeds), len(found), *map(_estimate, zip(*found, strict=True))])
    return markdown_table(["arm", "third", "seeds", "steps", *_STRATA], rows)


def _estimate(values: Sequence[float]) -> str:
    found = Estimate.of(values)
    return f"{format_signed(found.mean, 4)} ({format_signed(found.low, 4)} to {format_signed(found.high, 4)})"
