"""Probes at several step sizes (Fig. 3) beside GWHES, as a Markdown table by thirds of a run.

The table separates two reasons why a question's own update lowers its correct responses. Displacement inside
the group (Theorem A.1) needs G > 0 and shows at small steps. Overshoot of too large a step happens
with G < 0, and only above some multiplier s* of the learning rate; as a run approaches its collapse, s* falls to 1.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median

from trainer_hooks.reference.experiments.measures import collapse_step, series
from trainer_hooks.reference.experiments.run_recording import Row
from trainer_hooks.reference.experiments.tables.outcomes import read_runs
from trainer_hooks.reference.experiments.tables.question_displacement import STAGES, fell_share
from trainer_hooks.reference.measurements.decomposition import MOMENTUM_PARTS, PARTS, SCALING_PARTS
from trainer_hooks.reference.measurements.question_probe import MULTIPLIERS, half_fall_multiplier

__all__ = ["decomposition_table", "momentum_table", "origin_table", "pool_by_third", "sweep_table"]

_FIRST, _WHOLE, _ACTION = "probe/by_question", "probe/gwhes_by_question", "probe/gwhes_action0_by_question"


def pool_by_third(seeds: Mapping[int, Sequence[Row]], name: str) -> dict[str, list[float]]:
    """Pool a list signal over seeds by thirds of each run up to its collapse, or to its end where it has none."""
    pooled: dict[str, list[float]] = {stage: [] for stage in STAGES}
    for rows in seeds.values():
        end = collapse_step(series(rows, "reward/mean")) or len(rows) + 1
        for at, row in enumerate(rows[: end - 1]):
            pooled[STAGES[len(STAGES) * at // (end - 1)]] += row.get(name, [])
    return pooled


def sweep_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each third of an arm's runs: questions, share that fell by multiplier, s*, and G."""
    shares_head = " | ".join(f"fell at ×{multiplier:g}" for multiplier in MULTIPLIERS)
    head = f"| arm | third | questions | {shares_head} | s* | median G | G > 0 | median G, first action | G > 0 |"
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    for arm in arms:
        seeds = read_runs(folder, arm)
        by_multiplier = {
            multiplier: pool_by_third(seeds, _FIRST + ("" if number == 0 else f"_x{multiplier:g}"))
            for number, multiplier in enumerate(MULTIPLIERS)
        }
        weights = {name: pool_by_third(seeds, name) for name in (_WHOLE, _ACTION)}
        for stage in STAGES:
            shares = {multiplier: fell_share(found[stage]) for multiplier, found in by_multiplier.items()}
            if not by_multiplier[1.0][stage] or any(map(math.isnan, shares.values())):
                continue
            half = half_fall_multiplier(shares)
            lines.append(
                f"| {arm} | {stage} | {len(by_multiplier[1.0][stage])} "
                f"| {' | '.join(f'{share:.0%}' for share in shares.values())} "
                f"| {'above 16' if half is None else f'{half:.1f}'} "
                f"| {' | '.join(_weights(weights[name][stage]) for name in (_WHOLE, _ACTION))} |"
            )
    return "\n".join(lines)


def decomposition_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each third of an arm's runs: the mean change of ln π of correct responses over a step, by cause.

    The columns after the measured change add up to it (`measurements.decomposition`), in nats a response.
    """
    return _means_by_third(folder, arms, ["measured", *PARTS])


def momentum_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each third of an arm's runs: the part ``momentum``, by the gradients that made it.

    Runs recorded without these parts are left out. The columns after the first add up to it, in nats a response.
    """
    return _means_by_third(folder, arms, ["momentum", *MOMENTUM_PARTS])


def origin_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each third of an arm's runs: what whole gradients did through AdamW, by what they belong to.

    Each column is the sum of the plain part, the part in ``scaling`` and the part in ``momentum``, in nats a response;
    with the remainder and the momentum of earlier steps the columns add up to the measured change. Runs recorded
    without these parts are left out.
    """
    names = ["measured", "remainder", *PARTS[:4], *MOMENTUM_PARTS, *SCALING_PARTS]
    head = "| arm | third | steps | measured | own | negatives | others | regularisers | earlier steps | remainder |"
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    for arm in arms:
        for stage, rows in _pooled(folder, arm, names).items():
            if rows:
                mean = {name: fmean(row[f"decomposition/{name}"] for row in rows) for name in names}
                origins = [mean[name] + mean[f"scaling_{name}"] + mean[f"momentum_{name}"] for name in PARTS[:4]]
                changes = [mean["measured"], *origins, mean["momentum_earlier"], mean["remainder"]]
                values = " | ".join(_change(value) for value in changes)
                lines.append(f"| {arm} | {stage} | {len(rows)} | {values} |")
    return "\n".join(lines)


def _means_by_third(folder: Path, arms: Iterable[str], names: Sequence[str]) -> str:
    """Average signals of a decomposition over the steps that have all of them, by thirds of each run."""
    columns = " | ".join(name.removeprefix("momentum_") for name in names)
    head = f"| arm | third | steps | {columns} |"
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    for arm in arms:
        for stage, found in _pooled(folder, arm, names).items():
            if found:
                values = " | ".join(_change(fmean(row[f"decomposition/{name}"] for row in found)) for name in names)
                lines.append(f"| {arm} | {stage} | {len(found)} | {values} |")
    return "\n".join(lines)


def _pooled(folder: Path, arm: str, names: Sequence[str]) -> dict[str, list[Row]]:
    """Pool the steps that have all parts of a decomposition by thirds of each run, up to its collapse or its end."""
    pooled: dict[str, list[Row]] = {stage: [] for stage in STAGES}
    for rows in read_runs(folder, arm).values():
        end = collapse_step(series(rows, "reward/mean")) or len(rows) + 1
        for at, row in enumerate(rows[: end - 1]):
            if all(f"decomposition/{name}" in row for name in names):
                pooled[STAGES[len(STAGES) * at // (end - 1)]].append(row)
    return pooled


def _change(value: float) -> str:
    """Format a change of ln π."""
    return f"{value:+.3f}".replace("-", "−")


def _weights(values: Sequence[float]) -> str:
    """Format the median of G and the share of questions with G > 0."""
    present = [value for value in values if not math.isnan(value)]
    if not present:
        return "– | –"
    share = sum(value > 0 for value in present) / len(present)
    return f"{median(present):+.0f}".replace("-", "−") + f" | {share:.0%}"
