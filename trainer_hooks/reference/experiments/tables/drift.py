"""Phase II of recorded runs as a Markdown table, one row a run."""

from collections.abc import Iterable
from pathlib import Path

from trainer_hooks.reference.experiments.measures import collapse_step, drift, series, smooth
from trainer_hooks.reference.experiments.tables.outcomes import read_runs

__all__ = ["drift_table"]

_HEADER = (
    "| setting | seed | steps | phase II | ln p of correct | displacement, summed | entropy, summed | reward "
    "| ln p after it | gradient surge | collapse | peak | final |"
)


def drift_table(folder: Path, names: Iterable[str]) -> str:
    """Format a row for each setting and seed: its phase II (`measures.drift`), what came after, its collapse.

    Changes over phase II are in nats a token, the paired ones summed over it.
    """
    rows = [_HEADER, "|---" * _HEADER.count(" | ") + "|---|"]
    for name in names:
        for seed, run in read_runs(folder, name).items():
            rewards = series(run, "reward/mean")
            found = drift(run)
            averages = smooth(rewards)
            phase = (
                f"{found.first_step} to {found.last_step} | {found.likelihood:+.2f} | {found.displacement:+.2f} "
                f"| {found.entropy:+.2f} | {found.reward:+.2f} | {found.further_fall:+.2f} | {found.surge:.2f}"
                if found
                else "none | | | | | | "
            )
            rows.append(
                f"| {name} | {seed} | {len(run)} | {phase} | {collapse_step(rewards) or '–'} "
                f"| {max(averages):.2f} | {averages[-1]:.2f} |"
            )
    return "\n".join(rows)
