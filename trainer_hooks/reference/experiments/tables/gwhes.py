"""GWHES (eq. 9) of batches, of single actions and of single groups, and whether the groups' correct responses fell."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

from trainer_hooks.reference.experiments.run_recording import Row
from trainer_hooks.reference.experiments.tables.cells import format_signed
from trainer_hooks.reference.experiments.tables.markdown import markdown_table
from trainer_hooks.reference.experiments.tables.outcomes import read_runs
from trainer_hooks.reference.experiments.tables.question_displacement import DISPLACEMENT
from trainer_hooks.reference.experiments.thirds import pool_by_third

__all__ = ["fall_by_gwhes_table", "first_action_table", "gwhes_action_table", "gwhes_table"]

OF_BATCH = "similarity/gwhes"
ACTIONS_SHOWN = 8
ALL_ACTIONS = "probe/gwhes_by_question"
FIRST_ACTION = "probe/gwhes_action0_by_question"


def gwhes_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each third of an arm's runs: probes, their median mean G (eq. 9), and how many exceed 0."""
    rows = [
        [
            arm,
            third,
            len(values),
            *(format_signed(value, 0) for value in (median(values), min(values), max(values))),
            above,
        ]
        for arm in arms
        for third, values, above in _pool(folder, arm, OF_BATCH)
    ]
    return markdown_table(["arm", "third", "probes", "median G", "lowest", "highest", "G > 0"], rows)


def gwhes_action_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each action and third of an arm's runs: probes, median mean G, and how many exceed 0.

    Recordings that have G summed over actions only are left out.
    """
    rows = [
        [arm, action, third, len(values), format_signed(median(values), 0), above]
        for arm in arms
        for action in range(ACTIONS_SHOWN)
        for third, values, above in _pool(folder, arm, f"{OF_BATCH}_action{action}")
    ]
    return markdown_table(["arm", "action", "third", "probes", "median G", "G > 0"], rows)


def first_action_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each third of an arm's runs: groups with right and wrong responses, and G of their first action.

    Cures are worth comparing where G of the first action exceeds 0 in 30 % of these groups or more.
    """
    rows = []
    for arm in arms:
        for third, values, _ in _pool(folder, arm, FIRST_ACTION):
            above = sum(value > 0 for value in values)
            rows.append(
                [arm, third, len(values), format_signed(median(values), 0), f"{above} ({above / len(values):.0%})"]
            )
    return markdown_table(["arm", "third", "mixed groups", "median G of the first action", "G > 0"], rows)


def fall_by_gwhes_table(folder: Path, arms: Iterable[str]) -> str:
    """Format rows for the sign of G: number of groups, and of groups whose update lowers correct responses (eq. 3).

    Theorem A.1 of v2 predicts a fall where G of eq. 9 exceeds 0. The range is that of the seeds.
    """
    rows = []
    for arm in arms:
        seeds = read_runs(folder, arm)
        for label, name in (("all actions", ALL_ACTIONS), ("the first action", FIRST_ACTION)):
            for sign, is_above in (("G > 0", True), ("G ≤ 0", False)):
                found = [_falls(run, name, is_above=is_above) for run in seeds.values()]
                total, fell = sum(map(len, found)), sum(map(sum, found))
                if total:
                    shares = [sum(falls) / len(falls) for falls in found if falls]
                    spread = f"{fell / total:.0%} ({min(shares):.0%} to {max(shares):.0%})"
                    rows.append([arm, label, sign, total, fell, spread])
    return markdown_table(["arm", "G of", "sign", "mixed groups", "fell", "share, by seed"], rows)


def _pool(folder: Path, arm: str, name: str) -> Iterator[tuple[str, list[float], str]]:
    """Yield each third in which G was observed with its values, and how many of them exceed 0."""
    for third, values in pool_by_third(read_runs(folder, arm), name).items():
        if values:
            yield third, values, f"{sum(value > 0 for value in values)}/{len(values)}"


def _falls(rows: Sequence[Row], name: str, *, is_above: bool) -> list[bool]:
    """Return for each group with G of one sign whether its correct responses fell."""
    held = (row for row in rows if name in row and DISPLACEMENT in row)
    pairs = (pair for row in held for pair in zip(row[name], row[DISPLACEMENT], strict=True))
    return [change < 0 for gwhes, change in pairs if (gwhes > 0) == is_above]
