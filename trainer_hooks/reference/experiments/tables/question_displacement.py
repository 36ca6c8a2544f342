"""Displacement of each question's correct responses by its own update (eq. 3), as a Markdown table."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from trainer_hooks.reference.experiments.run_recording import Row
from trainer_hooks.reference.experiments.tables.markdown import markdown_table
from trainer_hooks.reference.experiments.tables.outcomes import read_runs
from trainer_hooks.reference.experiments.thirds import pool_by_third

__all__ = ["DISPLACEMENT", "fell_share", "is_probed", "question_table"]

DISPLACEMENT = "probe/by_question"


def is_probed(seeds: Mapping[int, Sequence[Row]]) -> bool:
    """Return whether any of the runs was recorded with the probe."""
    return any(DISPLACEMENT in row for rows in seeds.values() for row in rows)


def fell_share(changes: Sequence[float]) -> float:
    """Compute the share of questions whose correct responses fell; NaN without any."""
    return sum(change < 0 for change in changes) / len(changes) if changes else math.nan


def question_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each third of an arm's runs: questions, median Δ(x) in nats a response, share that fell."""
    rows = [
        [arm, third, len(values), f"{median(values):+.3f}", f"{fell_share(values):.0%}"]
        for arm in arms
        for third, values in pool_by_third(read_runs(folder, arm), DISPLACEMENT).items()
        if values
    ]
    return markdown_table(["arm", "third", "questions", "median Δ(x)", "fell"], rows)
