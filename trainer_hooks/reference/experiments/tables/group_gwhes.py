"""GWHES of single groups, over all actions and over the first alone, and whether their correct responses fell."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from trainer_hooks.reference.experiments.run_recording import Row
from trainer_hooks.reference.experiments.tables.outcomes import read_runs
from trainer_hooks.reference.experiments.tables.question_displacement import DISPLACEMENT, stages
from trainer_hooks.reference.experiments.tables.ranges import signed_whole

__all__ = ["fall_by_gwhes_table", "first_action_table"]

ALL_ACTIONS = "probe/gwhes_by_question"
FIRST_ACTION = "probe/gwhes_action0_by_question"


def first_action_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each third of an arm's runs: groups with right and wrong responses, and G of their first action.

    Cures are worth comparing where G of the first action exceeds 0 in 30 % of these groups or more.
    """
    lines = ["| arm | third | mixed groups | median G of the first action | G > 0 |", "|---|---|---|---|---|"]
    for arm in arms:
        for stage, values in stages(read_runs(folder, arm), FIRST_ACTION).items():
            if values:
                above = sum(value > 0 for value in values)
                cells = f"{len(values)} | {signed_whole(median(values))} | {above} ({above / len(values):.0%})"
                lines.append(f"| {arm} | {stage} | {cells} |")
    return "\n".join(lines)


def fall_by_gwhes_table(folder: Path, arms: Iterable[str]) -> str:
    """Format rows for the sign of G: groups, and in how many their own update lowers correct responses (eq. 3).

    Theorem A.1 of v2 predicts a fall where G of eq. 9 exceeds 0. The range is that of the seeds.
    """
    lines = ["| arm | G of | sign | mixed groups | fell | share, by seed |", "|---|---|---|---|---|---|"]
    for arm in arms:
        seeds = read_runs(folder, arm)
        for label, name in (("all actions", ALL_ACTIONS), ("the first action", FIRST_ACTION)):
            for sign, is_above in (("G > 0", True), ("G ≤ 0", False)):
                found = [_falls(rows, name, is_above=is_above) for rows in seeds.values()]
                total, fell = sum(map(len, found)), sum(map(sum, found))
                if total:
                    shares = [sum(falls) / len(falls) for falls in found if falls]
                    spread = f"{fell / total:.0%} ({min(shares):.0%} to {max(shares):.0%})"
                    lines.append(f"| {arm} | {label} | {sign} | {total} | {fell} | {spread} |")
    return "\n".join(lines)


def _falls(rows: Sequence[Row], name: str, *, is_above: bool) -> list[bool]:
    """Return for each group with G of one sign whether its correct responses fell."""
    held = (row for row in rows if name in row and DISPLACEMENT in row)
    pairs = (pair for row in held for pair in zip(row[name], row[DISPLACEMENT], strict=True))
    return [change < 0 for gwhes, change in pairs if (gwhes > 0) == is_above]
