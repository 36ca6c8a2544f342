"""The course of an arm over its steps as a Markdown table, one row a signal."""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from trainer_hooks.reference.experiments.measures import BLOCK, block_means, observed
from trainer_hooks.reference.experiments.tables.cells import with_minus
from trainer_hooks.reference.experiments.tables.markdown import markdown_table
from trainer_hooks.reference.experiments.tables.outcomes import read_runs

__all__ = ["course_table"]

COLUMNS = 14

ROWS = {
    "reward": ("reward/mean", ".2f"),
    "ln p of correct, a token": ("likelihood/correct", ".2f"),
    "its first action": ("likelihood/action0", ".2f"),
    "its second action": ("likelihood/action1", ".2f"),
    "ln p of incorrect, a token": ("likelihood/incorrect", ".2f"),
    "ln p of the warm start's correct ones": ("fixed/likelihood", ".2f"),
    "displacement of the batch's own correct ones, a step": ("displacement/self", "+.3f"),
    "displacement of held-out correct ones, a step": ("displacement/cross", "+.3f"),
    "entropy": ("entropy/mean", ".2f"),
    "paired change of entropy, a step": ("entropy/paired_delta", "+.3f"),
    "gradient norm": ("grad/norm", ".2f"),
    "tokens clipped, share": ("ratio/clip_frac", ".3f"),
    "action tokens a response": ("length/mean", ".0f"),
}
PENALTY_ROWS = {
    "protected responses with an open gate (eq. 5), share": ("lld/gated_responses_frac", ".2f"),
    "LLDS's penalty before λ, nats a token": ("loss/llds", ".4f"),
}
"""Rows of the arms with the penalty of LLD or LLDS, behind the others."""


def course_table(folder: Path, arm: str) -> str:
    """Format medians over seeds of means of ten steps, as far as every seed goes; a dash where no seed has a signal."""
    runs = list(read_runs(folder, arm).values())
    blocks = min((len(run) for run in runs), default=0) // BLOCK
    every = max(1, math.ceil(blocks / COLUMNS))
    head = ["to step", *(str((block + 1) * BLOCK) for block in range(0, blocks, every))]
    rows = []
    for label, (name, digits) in (ROWS | (PENALTY_ROWS if arm.startswith("lld") else {})).items():
        means = [block_means(run[: blocks * BLOCK], name)[:: BLOCK * every] for run in runs]
        rows.append([label, *(_median(of_runs, digits) for of_runs in zip(*means, strict=True))])
    return markdown_table(head, rows)


def _median(values: Sequence[float], digits: str) -> str:
    present = observed(values)
    return with_minus(median(present), digits) if present else "–"
