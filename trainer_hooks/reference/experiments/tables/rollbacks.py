"""Runs with rollbacks beside the runs of the same seeds without, as a Markdown table; every seed is shown."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from trainer_hooks.reference.experiments.measures import collapse_step, rewards_of, series, smooth
from trainer_hooks.reference.experiments.rollback_runs import RESCUES
from trainer_hooks.reference.experiments.run_recording import Row
from trainer_hooks.reference.experiments.tables.markdown import markdown_table
from trainer_hooks.reference.experiments.tables.outcomes import read_runs, share

__all__ = ["history", "rescue_table", "rewinds"]

BLOCK = 20
"""Steps in the means beside the moving averages, because a peak of a moving average is partly noise."""

_HEAD = (
    "arm",
    "seed",
    "dead twin: collapse",
    "peak",
    "best 20 steps",
    "final",
    "taken back after step → to",
    "last step",
    "final",
    "last 20 steps",
    "ends above the twin's peak",
)


def rescue_table(folder: Path, twins: Path) -> str:
    """Format a row for each arm and seed, and a line for each arm: how many ended above the twin's peak.

    Peak and final reward are of the moving average of `measures.smooth`, of a rescued run over the newest attempt at
    every step. A run whose twin is not recorded has its own numbers alone, and a line names it.

    Args:
        folder: Recordings of `rollback_runs.rescue`.
        twins: Recordings of vanilla GRPO in the same regime with the same seeds, without rollbacks.
    """
    rows: list[list[object]] = []
    lines = []
    dead = read_runs(twins, "grpo")
    for arm in RESCUES:
        above: list[tuple[bool, bool]] = []
        alone: list[int] = []
        for seed, run in read_runs(folder, arm).items():
            taken = history(run)
            rescued = rewards_of(taken)
            final, last = smooth(rescued)[-1], _means(rescued)[-1]
            back = ", ".join(f"{after} → {to}" for after, to in rewinds(run)) or "never"
            ends = [back, len(taken), f"{final:.2f}", f"{last:.2f}"]
            if seed not in dead:
                alone.append(seed)
                rows.append([arm, seed, *["–"] * 4, *ends, "no twin"])
                continue
            twin = rewards_of(dead[seed])
            peak, best = max(smooth(twin)), max(_means(twin))
            above.append((final > peak, last > best))
            of_twin = [
                collapse_step(series(dead[seed], "reward/mean")) or "–",
                *(f"{value:.2f}" for value in (peak, best, smooth(twin)[-1])),
            ]
            rows.append([arm, seed, *of_twin, *ends, "yes" if final > peak else "no"])
        if above:
            by_average, by_mean = (share(comparisons) for comparisons in zip(*above, strict=True))
            lines.append(
                f"- {arm}: {by_average} end above the peak of their twin; by means of {BLOCK} steps {by_mean}."
            )
        if alone:
            seeds = " ".join(map(str, alone))
            lines.append(
                f"- {arm}: no twin of seed {seeds} is recorded; `dynamics --arms grpo --seeds {seeds}` trains it."
            )
    return "\n".join([markdown_table(_HEAD, rows), "", *lines])


def _means(rewards: Sequence[float]) -> list[float]:
    """Compute the mean of every 20 steps in a row, or of all where there are fewer."""
    return [fmean(rewards[at : at + BLOCK]) for at in range(max(1, len(rewards) - BLOCK + 1))]


def history(rows: Iterable[Row]) -> list[Row]:
    """Select the newest attempt's row of every step, as the collector shows a run."""
    return [row for _, row in sorted({row["step"]: row for row in rows}.items())]


def rewinds(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """List the rewinds of a recording: the step before each and the step it went back to."""
    return [
        (before["step"], after["step"] - 1) for before, after in pairwise(rows) if after["attempt"] > before["attempt"]
    ]
