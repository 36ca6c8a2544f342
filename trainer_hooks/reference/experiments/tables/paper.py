"""Tables of recorded runs beside tables and figures of the paper (arXiv 2512.04220) that no picture shows."""

from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, median

from trainer_hooks.reference.experiments.measures import BLOCK, block_means, collapse_step, series
from trainer_hooks.reference.experiments.tables.cells import median_and_range, with_minus
from trainer_hooks.reference.experiments.tables.held_out_reward import held_out_rewards
from trainer_hooks.reference.experiments.tables.markdown import markdown_table
from trainer_hooks.reference.experiments.tables.outcomes import read_runs

__all__ = ["drop_table", "paper_table", "searches_table"]

PAPER = {
    "grpo": (0.312, 0.350, 0.336, 0.396),
    "llds-0.1": (0.360, 0.462, 0.419, 0.469),
    "llds-ma-0.1": (0.430, None, None, None),
}
"""Published mean exact match of v1, Tables 1 and 2: Qwen2.5 3B Base, 7B Base, 3B Instruct, 7B Instruct.

For the instruct models method.md of the design has the best of the two variants of LLDS.
"""

DROP_SHARE = 0.8
FIRST_BLOCK = 10
"""Blocks begin at step 11: before it the policy adapts from its warm start."""


def paper_table(folder: Path) -> str:
    """Format a row for each arm of the paper's Tables 1 and 2: published exact match, and held-out reward here."""
    head = ["arm", "3B Base", "7B Base", "3B Instruct", "7B Instruct", "here, best 20 steps", "here, last 20 steps"]
    rows = []
    here = {arm: held_out_rewards(folder, arm) for arm in PAPER}
    for arm, published in PAPER.items():
        if here[arm] and here["grpo"]:
            cells = [_relative(value, base) for value, base in zip(published, PAPER["grpo"], strict=True)]
            for part in (1, 2):
                values, base = (median(found[part] for found in here[name]) for name in (arm, "grpo"))
                cells.append(_relative(values, base, digits=2))
            rows.append([arm, *cells])
    return markdown_table(head, rows)


def drop_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each seed: the gradient norm at the first clear fall of the reward (Fig. 7), before and after.

    The fall is the first ten-step mean of the reward under 0.8 of the best one so far, from step 11 on. Norms are
    ten-step means too, before clipping.
    """
    head = ["arm", "seed", "reward first falls, to step", "gradient norm until then", "at the fall", "largest after"]
    rows = []
    for arm in arms:
        for seed, run in read_runs(folder, arm).items():
            rewards, norms = (block_means(run, name)[FIRST_BLOCK:] for name in ("reward/mean", "grad/norm"))
            at = _first_fall(rewards)
            if at is None:
                continue
            values = [f"{norm:.2f}" for norm in (fmean(norms[: at + 1]), norms[at], max(norms[at:]))]
            collapse = collapse_step(series(run, "reward/mean")) or "–"
            rows.append([arm, seed, FIRST_BLOCK + at + BLOCK, *values, collapse])
    return markdown_table([*head, "reward collapses"], rows)


def searches_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each arm: valid searches a response (Fig. 9) over the first 50 steps, the last 50 and all."""
    rows = []
    for arm in arms:
        found = []
        for run in read_runs(folder, arm).values():
            calls = [row["tools/calls"] * row["tools/valid_frac"] for row in run if "tools/valid_frac" in row]
            if calls:
                found.append((fmean(calls[:50]), fmean(calls[-50:]), fmean(calls)))
        if found:
            rows.append([arm, len(found), *map(median_and_range, zip(*found, strict=True))])
    return markdown_table(["arm", "seeds", "first 50 steps", "last 50 steps", "all steps"], rows)


def _first_fall(means: list[float]) -> int | None:
    """Return the first place whose mean is under the share of the best before it."""
    best = 0.0
    for at, mean in enumerate(means):
        if mean < DROP_SHARE * best:
            return at
        best = max(best, mean)
    return None


def _relative(value: float | None, base: float | None, *, digits: int = 3) -> str:
    """Format a value and its change relative to that of vanilla GRPO."""
    if value is None or base is None:
        return "–"
    change = "" if value == base else f" ({with_minus(value / base - 1, '+.1%')})"
    return f"{value:.{digits}f}{change}"
