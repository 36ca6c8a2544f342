"""The fair test: does a cure keep runs alive at equal reward, or does it only act like a smaller learning rate?

Arms are compared with the uncured arm of the same model, seed by seed, over their first 50 steps. Runs of one seed have
the same first questions. An arm supports the paper's claim if its reward over these steps is equal, and four of five
seeds are alive at twice the uncured arm's median life.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, median

from trainer_hooks.reference.experiments.measures import collapse_step, rewards_of, series
from trainer_hooks.reference.experiments.run_recording import Row
from trainer_hooks.reference.experiments.tables.cells import difference_and_range, median_and_range
from trainer_hooks.reference.experiments.tables.markdown import markdown_table
from trainer_hooks.reference.experiments.tables.outcomes import read_runs

__all__ = ["CURES", "FAIR_ARMS", "fair_table"]

FAIR_ARMS = (
    "grpo", "lld-0.1", "llds-0.01", "llds-0.1", "llds-0.1-action", "llds-release", "llds-release-response",
    "llds-ma-0.1", "nthr", "kl-0.001", "kl-0.01", "placebo-0.1", "half-lr", "quarter-lr", "clip-higher", "ppo",
    "kl-cov", "stare", "acpo", "llds-narrow", "llds-wide", "llds-strong",
)  # fmt: skip
"""The arms of the test, controls among them."""

UNCURED = {"llds-narrow": "grpo-narrow", "llds-wide": "grpo-wide", "llds-strong": "grpo-strong"}
"""The uncured arm with which an arm is compared, where that is not ``grpo``."""

CURES = tuple(arm for arm in FAIR_ARMS if arm not in UNCURED)
"""The arms that have the model of ``grpo``."""

FIRST_STEPS = 50
EQUAL_REWARD = 0.03
"""Largest median difference of equal rewards; uncured seeds of a regime differ by 0.02 to 0.06 among each other."""
LIFE_FACTOR = 2.0
LEAST_SEEDS, LEAST_SHARE = 5, 0.8


@dataclass(frozen=True, slots=True)
class _ComparedRun:
    """A run's mean reward over the first steps, and its life: to its collapse, or over the steps recorded."""

    reward: float
    life: int
    has_collapsed: bool

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "_ComparedRun":
        collapse = collapse_step(series(rows, "reward/mean"))
        return cls(fmean(rewards_of(rows)[:FIRST_STEPS]), collapse or len(rows), collapse is not None)


def fair_table(folder: Path, arms: Iterable[str] = FAIR_ARMS) -> str:
    """Format a row for each arm with runs, then which arms meet the bar, and which were not run."""
    head = ["arm", "seeds", "reward, first 50 steps", "difference, by seed", "equal", "median life"]
    head += ["times the uncured life", "alive at twice it", "meets the bar"]
    rows, met, missing = [], [], []

    @cache  # most arms are compared with the same one
    def read(arm: str) -> dict[int, _ComparedRun]:
        return {seed: _ComparedRun.of(rows) for seed, rows in read_runs(folder, arm).items()}

    for arm in arms:
        runs, uncured = read(arm), read(UNCURED.get(arm, "grpo"))
        if not runs or not uncured:
            missing.append(arm)
            continue
        row, meets = _row(arm, runs, uncured)
        rows.append(row)
        met += [arm] if meets else []
    lines = [
        markdown_table(head, rows),
        "",
        f"- Arms that meet the bar: {', '.join(met) or 'none'}.",
        f"- Not run: {', '.join(missing) or 'none'}.",
    ]
    return "\n".join(lines)


def _row(arm: str, runs: dict[int, _ComparedRun], uncured: dict[int, _ComparedRun]) -> tuple[list[str], bool]:
    """Format an arm's row, and return whether it meets the bar."""
    uncured_life, is_known = _median_life(uncured.values())
    life, is_observed = _median_life(runs.values())
    target, over = LIFE_FACTOR * uncured_life, "" if is_observed else "over "
    alive = sum(run.life > target or (run.life == target and not run.has_collapsed) for run in runs.values())
    unknown = sum(not run.has_collapsed and run.life < target for run in runs.values())
    rewards = [run.reward for run in runs.values()]
    differences = [run.reward - uncured[seed].reward for seed, run in runs.items() if seed in uncured]
    is_equal = bool(differences) and abs(median(differences)) <= EQUAL_REWARD
    is_many = len(runs) >= LEAST_SEEDS
    meets = is_known and is_equal and is_many and alive >= LEAST_SHARE * len(runs)
    cells = [
        arm,
        str(len(runs)),
        median_and_range(rewards),
        "–" if arm == "grpo" else difference_and_range(differences),
        "yes" if is_equal else "no" if differences else "–",
        f"{over}{life:g}",
        f"{over}{life * LIFE_FACTOR / target:.2f}" if is_known else "–",
        f"{alive}/{len(runs)}" + (f", {unknown} not observed" if unknown else "") if is_known else "–",
        "–" if arm == "grpo" or not is_known else "yes" if meets else "no" if is_many else "too few seeds",
    ]
    return cells, meets and arm != "grpo"


def _median_life(runs: Collection[_ComparedRun]) -> tuple[float, bool]:
    """Return the median life, and whether it was observed: if a run in the middle did not collapse, it is longer."""
    # Of two seeds with the same life, the one that collapsed comes first, because the other run lived longer.
    ordered = sorted(runs, key=lambda run: (run.life, not run.has_collapsed))
    middle = [ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]]
    return fmean(run.life for run in middle), all(run.has_collapsed for run in middle)
