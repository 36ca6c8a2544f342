"""Displacement of each question's correct responses by its own update (eq. 3), as a Markdown table."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from trainer_hooks.reference.experiments.measures import collapse_step, series
from trainer_hooks.reference.experiments.run_recording import Row
from trainer_hooks.reference.experiments.tables.outcomes import read_runs

__all__ = ["DISPLACEMENT", "fell_share", "is_probed", "question_table", "stages"]

STAGES = ("early", "middle", "late")
DISPLACEMENT = "probe/by_question"


def is_probed(seeds: Mapping[int, Sequence[Row]]) -> bool:
    """Return whether any of the runs was recorded with the probe."""
    return any(DISPLACEMENT in row for rows in seeds.values() for row in rows)


def stages(seeds: Mapping[int, Sequence[Row]], name: str = DISPLACEMENT) -> dict[str, list[float]]:
    """Pool what was found over seeds by thirds of each run up to its collapse, or to its end where it has none.

    Args:
        seeds: The rows of each seed's run.
        name: What was found, a number of a step or a list over its questions: by default Δ(x) of eq. 3.
    """
    pooled: dict[str, list[float]] = {stage: [] for stage in STAGES}
    for rows in seeds.values():
        end = collapse_step(series(rows, "reward/mean")) or len(rows) + 1
        for at, row in enumerate(rows[: end - 1]):
            found = row.get(name, [])
            pooled[STAGES[len(STAGES) * at // (end - 1)]] += found if isinstance(found, list) else [found]
    return pooled


def fell_share(changes: Sequence[float]) -> float:
    """Compute the share of questions whose correct responses fell; NaN without any."""
    return sum(change < 0 for change in changes) / len(changes) if changes else math.nan


def question_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each third of an arm's runs: questions, median Δ(x) in nats a response, share that fell."""
    lines = ["| arm | third | questions | median Δ(x) | fell |", "|---|---|---|---|---|"]
    for arm in arms:
        for stage, values in stages(read_runs(folder, arm)).items():
            if values:
                lines.append(f"| {arm} | {stage} | {len(values)} | {median(values):+.3f} | {fell_share(values):.0%} |")
    return "\n".join(lines)
