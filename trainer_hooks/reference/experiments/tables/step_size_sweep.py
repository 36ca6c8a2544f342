"""Probes at several step sizes (Fig. 3) beside GWHES, as a Markdown table by thirds of a run.

The table separates two reasons why a question's own update lowers its correct responses. Displacement inside
the group (Theorem A.1) needs G > 0 and shows at small steps. Overshoot of too large a step happens
with G < 0, and only above some multiplier s* of the learning rate; as a run approaches its collapse, s* falls to 1.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from trainer_hooks.reference.experiments.measures import observed
from trainer_hooks.reference.experiments.tables.cells import format_signed
from trainer_hooks.reference.experiments.tables.gwhes import ALL_ACTIONS, FIRST_ACTION
from trainer_hooks.reference.experiments.tables.markdown import markdown_table
from trainer_hooks.reference.experiments.tables.outcomes import read_runs
from trainer_hooks.reference.experiments.tables.question_displacement import DISPLACEMENT, fell_share
from trainer_hooks.reference.experiments.thirds import THIRDS, pool_by_third
from trainer_hooks.reference.measurements.question_probe import MULTIPLIERS, half_fall_multiplier

__all__ = ["sweep_table"]


def sweep_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each third of an arm's runs: questions, share that fell by multiplier, s*, and G."""
    head = ["arm", "third", "questions", *(f"fell at ×{multiplier:g}" for multiplier in MULTIPLIERS)]
    head += ["s*", "median G", "G > 0", "median G, first action", "G > 0"]
    rows = []
    for arm in arms:
        seeds = read_runs(folder, arm)
        by_multiplier = {
            multiplier: pool_by_third(seeds, DISPLACEMENT + ("" if number == 0 else f"_x{multiplier:g}"))
            for number, multiplier in enumerate(MULTIPLIERS)
        }
        weights = [pool_by_third(seeds, name) for name in (ALL_ACTIONS, FIRST_ACTION)]
        for third in THIRDS:
            shares = {multiplier: fell_share(found[third]) for multiplier, found in by_multiplier.items()}
            questions = len(by_multiplier[1.0][third])
            if questions and not any(map(math.isnan, shares.values())):
                half = half_fall_multiplier(shares)
                fell = [f"{share:.0%}" for share in shares.values()]
                cells = [arm, third, questions, *fell, "above 16" if half is None else f"{half:.1f}"]
                rows.append([*cells, *(cell for found in weights for cell in _weights(found[third]))])
    return markdown_table(head, rows)


def _weights(values: Sequence[float]) -> tuple[str, str]:
    """Format the median of G and the share of questions with G > 0."""
    present = observed(values)
    if not present:
        return "–", "–"
    return format_signed(median(present), 0), f"{sum(value > 0 for value in present) / len(present):.0%}"
