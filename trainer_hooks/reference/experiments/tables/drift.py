"""Phase II of recorded runs as a Markdown table, one row a run."""

from collections.abc import Iterable
from pathlib import Path

from trainer_hooks.reference.experiments.measures import Drift, collapse_step, drift, rewards_of, series, smooth
from trainer_hooks.reference.experiments.tables.markdown import markdown_table
from trainer_hooks.reference.experiments.tables.outcomes import read_runs

__all__ = ["drift_table"]

_PHASE = (
    "phase II",
    "ln p of correct",
    "displacement, summed",
    "entropy, summed",
    "reward",
    "ln p after it",
    "gradient surge",
)


def drift_table(folder: Path, names: Iterable[str]) -> str:
    """Format a row for each setting and seed: its phase II (`measures.drift`), what came after, its collapse.

    Changes over phase II are in nats a token, the paired ones summed over it.
    """
    rows = []
    for name in names:
        for seed, run in read_runs(folder, name).items():
            found = drift(run)
            averages = smooth(rewards_of(run))
            phase = ["none", *[""] * (len(_PHASE) - 1)] if found is None else _cells(found)
            ends = [collapse_step(series(run, "reward/mean")) or "–", f"{max(averages):.2f}", f"{averages[-1]:.2f}"]
            rows.append([name, seed, len(run), *phase, *ends])
    return markdown_table(["setting", "seed", "steps", *_PHASE, "collapse", "peak", "final"], rows)


def _cells(found: Drift) -> list[str]:
    changes = (found.likelihood, found.displacement, found.entropy, found.reward, found.further_fall)
    return [f"{found.first_step} to {found.last_step}", *(f"{change:+.2f}" for change in changes), f"{found.surge:.2f}"]
