"""Rescued runs beside their twins that died, as a Markdown table: every seed shown, nothing picked."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from trainer_hooks.reference.experiments.measures import collapse_step, series, smoothed
from trainer_hooks.reference.experiments.record import Row
from trainer_hooks.reference.experiments.rescue import RESCUES
from trainer_hooks.reference.experiments.table import recorded, share

__all__ = ["history", "rescue_table", "rewinds"]

_HEADER = (
    "| arm | seed | dead twin: collapse | peak | final | taken back after step → to | last step | final "
    "| above the twin's peak |"
)


def rescue_table(folder: Path, twins: Path) -> str:
    """Give an arm and seed a row, and an arm a line: how many ended above the peak of the twin that died.

    Rewards are the moving averages of `measures.smoothed`, over the steps of a run's newest attempt.

    Args:
        folder: Recordings of `rescue.rescue`.
        twins: Recordings of vanilla GRPO in the same regime with the same seeds, which nobody took back.
    """
    rows = [_HEADER, "|---" * _HEADER.count(" | ") + "|---|"]
    lines = []
    dead = recorded(twins, "grpo")
    for arm in RESCUES:
        above = []
        for seed, run in recorded(folder, arm).items():
            twin, rescued = (series(steps, "reward/mean") for steps in (dead[seed], history(run)))
            peak, final = max(smoothed(twin)), smoothed(rescued)[-1]
            above.append(final > peak)
            back = ", ".join(f"{after} → {to}" for after, to in rewinds(run))
            rows.append(
                f"| {arm} | {seed} | {collapse_step(twin) or '–'} | {peak:.2f} | {smoothed(twin)[-1]:.2f} "
                f"| {back or 'never'} | {len(rescued)} | {final:.2f} | {'yes' if above[-1] else 'no'} |"
            )
        if above:
            lines.append(f"- {arm}: {share(above)} end above the peak of their twin.")
    return "\n".join([*rows, "", *lines])


def history(rows: Iterable[Row]) -> list[Row]:
    """Give the newest attempt's row of every step, as the collector shows a run."""
    return [row for _, row in sorted({row["step"]: row for row in rows}.items())]


def rewinds(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Give every rewind of a recording: after which step, and back to which."""
    return [
        (before["step"], after["step"] - 1) for before, after in pairwise(rows) if after["attempt"] > before["attempt"]
    ]
