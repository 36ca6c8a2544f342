"""The cost of a cure in a healthy run: arms on a healthy setting, compared seed by seed with the uncured run."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from trainer_hooks.reference.experiments.measures import HEALTHY_STEPS, rewards_of, series, stayed_healthy
from trainer_hooks.reference.experiments.run_recording import Row
from trainer_hooks.reference.experiments.tables.cells import difference_and_range, median_and_range
from trainer_hooks.reference.experiments.tables.markdown import markdown_table
from trainer_hooks.reference.experiments.tables.outcomes import read_runs

__all__ = ["healthy_cost_table"]

EVALUATIONS_COMPARED = 20


def healthy_cost_table(folder: Path, arms: Iterable[str], uncured: str = "grpo") -> str:
    """Format a row for each recorded arm: its rewards, and how they differ from those of the uncured run of a seed.

    Args:
        folder: The recordings of one healthy setting.
        arms: The arms, in the order of the rows.
        uncured: The arm that the others are compared with.
    """
    measured = (
        "reward, all steps",
        f"reward, last {HEALTHY_STEPS} steps",
        f"held-out reward, last {EVALUATIONS_COMPARED}",
    )
    head = ["arm", "seeds", "stayed healthy"]
    head += [column for name in measured for column in (name, "difference, by seed")]
    table = []
    twins = read_runs(folder, uncured)
    steps = max(map(len, twins.values()), default=0)
    untreated = {seed: _rewards(rows, steps) for seed, rows in twins.items()}
    for arm in arms:
        runs = read_runs(folder, arm)
        if not runs:
            continue
        rewards = {seed: _rewards(rows, steps) for seed, rows in runs.items()}
        healthy = sum(stayed_healthy(series(rows, "reward/mean")) for rows in runs.values())
        cells = [arm, len(runs), f"{healthy}/{len(runs)}"]
        for kind in range(len(measured)):
            differences = [
                values[kind] - untreated[seed][kind] for seed, values in rewards.items() if seed in untreated
            ]
            cells += [
                median_and_range([values[kind] for values in rewards.values()]),
                "–" if arm == uncured else difference_and_range(differences),
            ]
        table.append(cells)
    return markdown_table(head, table)


def _rewards(rows: Sequence[Row], steps: int) -> tuple[float, float, float]:
    """Return the mean reward over all steps and over the last ones, and the mean of the last held-out rewards."""
    rewards = rewards_of(rows, steps=steps)
    held_out = [value for value in rewards_of(rows, "eval/reward") if value == value]  # noqa: PLR0124 - NaN
    return fmean(rewards), fmean(rewards[-HEALTHY_STEPS:]), fmean(held_out[-EVALUATIONS_COMPARED:])
