"""Rescued runs beside their twins that died, as a Markdown table: every seed shown, nothing picked."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from trainer_hooks.reference.experiments.measures import collapse_step, series, smoothed
from trainer_hooks.reference.experiments.record import Row
from trainer_hooks.reference.experiments.rescue import RESCUES
from trainer_hooks.reference.experiments.table import recorded, share

__all__ = ["history", "rescue_table", "rewinds"]

BLOCK = 20
"""Steps in the means that are told beside the moving averages: a peak of those is in part luck."""

_HEADER = (
    "| arm | seed | dead twin: collapse | peak | best 20 steps | final | taken back after step → to | last step "
    "| final | last 20 steps | ends above the twin's peak |"
)


def rescue_table(folder: Path, twins: Path) -> str:
    """Give an arm and seed a row, and an arm a line: how many ended above the peak of the twin that died.

    Peak and final reward are of the moving average of `measures.smoothed`, of a rescued run over the newest attempt at
    every step.

    Args:
        folder: Recordings of `rescue.rescue`.
        twins: Recordings of vanilla GRPO in the same regime with the same seeds, which nobody took back.
    """
    rows = [_HEADER, "|---" * _HEADER.count(" | ") + "|---|"]
    lines = []
    dead = recorded(twins, "grpo")
    for arm in RESCUES:
        above: list[tuple[bool, bool]] = []
        for seed, run in recorded(folder, arm).items():
            twin, rescued = (series(steps, "reward/mean") for steps in (dead[seed], history(run)))
            peak, best = max(smoothed(twin)), max(_means(twin))
            final, last = smoothed(rescued)[-1], _means(rescued)[-1]
            above.append((final > peak, last > best))
            back = ", ".join(f"{after} → {to}" for after, to in rewinds(run))
            rows.append(
                f"| {arm} | {seed} | {collapse_step(twin) or '–'} | {peak:.2f} | {best:.2f} | {smoothed(twin)[-1]:.2f} "
                f"| {back or 'never'} | {len(rescued)} | {final:.2f} | {last:.2f} | {'yes' if final > peak else 'no'} |"
            )
        if above:
            by_average, by_mean = (share(verdicts) for verdicts in zip(*above, strict=True))
            lines.append(
                f"- {arm}: {by_average} end above the peak of their twin; by means of {BLOCK} steps {by_mean}."
            )
    return "\n".join([*rows, "", *lines])


def _means(rewards: Sequence[float]) -> list[float]:
    """Give the mean of every 20 steps in a row, or of all where there are fewer."""
    return [fmean(rewards[at : at + BLOCK]) for at in range(max(1, len(rewards) - BLOCK + 1))]


def history(rows: Iterable[Row]) -> list[Row]:
    """Give the newest attempt's row of every step, as the collector shows a run."""
    return [row for _, row in sorted({row["step"]: row for row in rows}.items())]


def rewinds(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Give every rewind of a recording: after which step, and back to which."""
    return [
        (before["step"], after["step"] - 1) for before, after in pairwise(rows) if after["attempt"] > before["attempt"]
    ]
