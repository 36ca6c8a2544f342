"""The causes of the change of ln π of correct responses over a step, as Markdown tables by thirds of a run.

The parts are those of `measurements.decomposition`, in nats a response.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from trainer_hooks.reference.experiments.tables.cells import format_signed
from trainer_hooks.reference.experiments.tables.markdown import markdown_table
from trainer_hooks.reference.experiments.tables.outcomes import read_runs
from trainer_hooks.reference.experiments.thirds import THIRDS, rows_by_third
from trainer_hooks.reference.measurements.decomposition import MOMENTUM_PARTS, PARTS, SCALING_PARTS
from trainer_hooks.reference.measurements.held_out_decomposition import HELD_OUT_PARTS

__all__ = ["decomposition_table", "held_out_table", "momentum_table", "origin_table"]


def decomposition_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each third of an arm's runs: the mean change of ln π of correct responses over a step, by cause.

    The columns after the measured change add up to it.
    """
    return _table_of_parts(folder, arms, ["measured", *PARTS])


def momentum_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each third of an arm's runs: the part ``momentum``, by the gradients that made it.

    Runs recorded without these parts are left out. The columns after the first add up to it.
    """
    return _table_of_parts(folder, arms, ["momentum", *MOMENTUM_PARTS])


def held_out_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each third of an arm's runs: the mean change of ln π of held-out correct responses, by cause.

    Runs recorded without these parts are left out. The columns after the first add up to it.
    """
    return _table_of_parts(folder, arms, [f"held_out_{name}" for name in ("measured", *HELD_OUT_PARTS)])


def origin_table(folder: Path, arms: Iterable[str]) -> str:
    """Format a row for each third of an arm's runs: what whole gradients did through AdamW, by what they belong to.

    Each column is the sum of the plain part, the part in ``scaling`` and the part in ``momentum``; with the remainder
    and the momentum of earlier steps the columns add up to the measured change. Runs recorded without these parts are
    left out.
    """
    names = ["measured", "remainder", *PARTS[:4], *MOMENTUM_PARTS, *SCALING_PARTS]
    rows = []
    for arm, third, steps, mean in _means_by_third(folder, arms, names):
        origins = [mean[name] + mean[f"scaling_{name}"] + mean[f"momentum_{name}"] for name in PARTS[:4]]
        changes = [mean["measured"], *origins, mean["momentum_earlier"], mean["remainder"]]
        rows.append([arm, third, steps, *(format_signed(change, 3) for change in changes)])
    origins_head = ["measured", "own", "negatives", "others", "regularisers", "earlier steps", "remainder"]
    return markdown_table(["arm", "third", "steps", *origins_head], rows)


def _table_of_parts(folder: Path, arms: Iterable[str], names: Sequence[str]) -> str:
    rows = [
        [arm, third, steps, *(format_signed(change, 3) for change in mean.values())]
        for arm, third, steps, mean in _means_by_third(folder, arms, names)
    ]
    heads = [name.removeprefix("momentum_").removeprefix("held_out_") for name in names]
    return markdown_table(["arm", "third", "steps", *heads], rows)


def _means_by_third(
    folder: Path, arms: Iterable[str], names: Sequence[str]
) -> list[tuple[str, str, int, dict[str, float]]]:
    """Average parts over the steps that have all of them: arm, third, number of steps, and the means by name."""
    found = []
    for arm in arms:
        pooled: dict[str, list[list[float]]] = {third: [] for third in THIRDS}
        for third, row in rows_by_third(read_runs(folder, arm)):
            if all(f"decomposition/{name}" in row for name in names):
                pooled[third].append([row[f"decomposition/{name}"] for name in names])
        for third, steps in pooled.items():
            if steps:
                means = dict(zip(names, map(fmean, zip(*steps, strict=True)), strict=True))
                found.append((arm, third, len(steps), means))
    return found
