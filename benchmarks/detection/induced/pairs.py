"""Recordings of suite D as runs with truth: the healthy twin shows whether a failing run truly failed."""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from benchmarks.detection.induced.failures import LATER_CAUSES
from benchmarks.detection.induced.setting import TrainerKind
from benchmarks.detection.runs import Group, LabelledRun, Truth
from monitor_server.detection.protocol import Observation
from monitor_server.importers.steps import observations

__all__ = ["CHANNELS", "FIRST_LATER_NUMBER", "LOST_ROWS", "LOST_SHARE", "Half", "Pair", "pairs"]

CHANNELS = ("hooks", "log")
FIRST_LATER_NUMBER = 4  # of the pairs that were recorded when the rules of builtin-13 were fixed
LOST_SHARE = 0.75  # of the twin's quality
LOST_ROWS = 10


class Half(StrEnum):
    """A part of the recordings, by how much of it was known when rules were chosen."""

    OPEN = "open seeds"
    """Pairs of even numbers, which may be looked at."""
    UNSEEN_SEEDS = "unseen seeds"
    """Pairs of odd numbers, of the same causes."""
    LATER_SEEDS = "later seeds"
    """Pairs of the same causes that were recorded when the rules of builtin-13 were fixed, of all numbers."""
    UNSEEN_CAUSES = "unseen causes"
    """Pairs of causes that were added when the rules were fixed."""
    OTHER_TRAINER = "another trainer"
    """Pairs of another trainer of TRL than GRPO's; no rule was made with its runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A failing run and its healthy twin, each as seen through one channel.

    Attributes:
        failure: Name of the failure.
        is_sudden: Whether it has its full level at once.
        half: The part of the recordings to which it belongs.
        failing: Its truth is `Group.FAILURE`, or `Group.UNSCORED` where the run did not fail.
        healthy: The twin.
    """

    failure: str
    is_sudden: bool
    half: Half
    failing: LabelledRun
    healthy: LabelledRun

    @property
    def has_failed(self) -> bool:
        """Return whether the failing run truly failed."""
        return self.failing.truth.group is Group.FAILURE


def pairs(folder: Path, channel: str) -> list[Pair]:
    """Return the pairs recorded in a folder.

    A run has failed if its quality lies under three quarters of its twin's in ten successive rows from the onset on.
    The first of them is the loss, which is the truth's ``collapse``.

    Args:
        folder: The folder of recordings of `benchmarks.detection.induced`, with the folders in it.
        channel: ``"hooks"``, the signals that the callback sent, or ``"log"``, the metrics that TRL logged.
    """
    found = []
    for path in sorted(folder.rglob("*-failing.jsonl.gz")):
        twin = path.with_name(path.name.replace("-failing.", "-healthy."))
        if twin.exists():
            found.append(_pair(_lines(path), _lines(twin), channel))
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]


def _pair(failing: list[dict[str, Any]], healthy: list[dict[str, Any]], channel: str) -> Pair:
    meta, rows = failing[0], failing[1:]
    twins = healthy[1:]
    lost = _loss([row["quality"] for row in rows], [row["quality"] for row in twins], meta["onset"])
    truth = (
        Truth(group=Group.UNSCORED, kind=meta["failure"], onset=meta["onset"])
        if lost is None
        else Truth(
            group=Group.FAILURE,
            kind=meta["failure"],
            onset=meta["onset"],
            acceleration=meta["onset"],
            collapse=lost,
        )
    )
    name = f"{meta['failure']}, pair {meta['number']}"
    return Pair(
        failure=meta["failure"],
        is_sudden=meta["is_sudden"],
        half=_half(meta),
        failing=LabelledRun(name=name, truth=truth, observations=_observed(rows, channel)),
        healthy=LabelledRun(
            name=f"{name}, twin",
            truth=Truth(group=Group.BENIGN, kind="healthy"),
            observations=_observed(twins, channel),
        ),
    )


def _half(meta: Mapping[str, Any]) -> Half:
    if meta.get("trainer", TrainerKind.GRPO) != TrainerKind.GRPO:  # the first recordings do not name theirs
        return Half.OTHER_TRAINER
    if meta["cause"] in LATER_CAUSES:
        return Half.UNSEEN_CAUSES
    if meta["number"] >= FIRST_LATER_NUMBER:
        return Half.LATER_SEEDS
    return Half.UNSEEN_SEEDS if meta["number"] % 2 else Half.OPEN


def _loss(qualities: Sequence[float], twins: Sequence[float], onset: int) -> int | None:
    """Return the first of ten successive steps whose quality lies under three quarters of the twin's."""
    low = [own < LOST_SHARE * twin for own, twin in zip(qualities, twins, strict=True)]
    for row in range(onset - 1, len(low) - LOST_ROWS + 1):
        if all(low[row : row + LOST_ROWS]):
            return row + 1
    return None


def _observed(rows: Sequence[Mapping[str, Any]], channel: str) -> list[Observation]:
    if channel == "hooks":
        return [Observation(step=row["step"], signals=row["hooks"]) for row in rows]
    return observations([{"step": row["step"], **row["log"]} for row in rows])
