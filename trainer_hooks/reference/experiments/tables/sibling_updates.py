"""The table of what correct responses lose before their own update, by whether a wrong sibling was updated before."""

from collections.abc import Iterable
from pathlib import Path

from trainer_hooks.forks import Estimate
from trainer_hooks.reference.experiments.measures import collapse_step, series
from trainer_hooks.reference.experiments.tables.outcomes import read_runs
from trainer_hooks.reference.experiments.tables.question_displacement import STAGES

__all__ = ["siblings_table"]

_WITHIN = "siblings/lost_within"
_STRATA = ("siblings/lost_after_wrong", "siblings/lost_before_wrong", _WITHIN)


def siblings_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each third of an arm's runs: d in both strata, and their difference within minibatches.

    d = ln π_old − ln π_θ just before the response's own update, nats a response. Means over steps with 95 % intervals
    (mean ± 1.96 s/√n, steps taken as independent), over the steps that have the difference. A difference above 0 is
    displacement inside the group; equal strata refute it.
    """
    head = (
        "| arm | third | seeds | steps | d, a wrong sibling updated | d, none updated | difference within minibatches |"
    )
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    for arm in arms:
        seeds = read_runs(folder, arm)
        pooled: dict[str, list[tuple[float, ...]]] = {stage: [] for stage in STAGES}
        for rows in seeds.values():
            end = collapse_step(series(rows, "reward/mean")) or len(rows) + 1
            for at, row in enumerate(rows[: end - 1]):
                if all(name in row for name in _STRATA):
                    pooled[STAGES[len(STAGES) * at // (end - 1)]].append(tuple(row[name] for name in _STRATA))
        for stage, found in pooled.items():
            if found:
                columns = " | ".join(_estimate(Estimate.of(values)) for values in zip(*found, strict=True))
                lines.append(f"| {arm} | {stage} | {len(seeds)} | {len(found)} | {columns} |")
    return "\n".join(lines)


def _estimate(found: Estimate) -> str:
    text = f"{found.mean:+.4f} ({found.low:+.4f} to {found.high:+.4f})"
    return text.replace("-", "−")
