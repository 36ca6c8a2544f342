"""Recordings of the reference trainer (suite B) as runs with truth, which is read off the recording itself."""

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.detection.authored.latent import collapse_step
from benchmarks.detection.runs import Group, LabelledRun, Truth
from monitor_server.detection.protocol import Observation

__all__ = ["recordings"]

IDENTITY = ("step", "reward/mean", "entropy/mean", "grad/norm")


def recordings(folder: Path) -> list[LabelledRun]:
    """Return the reference trainer's recordings below a folder: ``*.jsonl`` or ``*.jsonl.gz``, canonical names.

    Runs that went back on an alert (their rows have an ``attempt``) are left out: they depend on the engine at the time
    of the recording, and do not test the present one. Of recordings of one run, which agree in every row of `IDENTITY`,
    only the first by name counts: the others were made to record more signals.

    Truth comes from the reward itself: the collapse of `collapse_step`, or the first non-finite gradient. The onset
    of a drift is not known, so every alarm before the collapse counts.
    """
    files = sorted([*folder.rglob("*.jsonl"), *folder.rglob("*.jsonl.gz")])
    found: dict[str, LabelledRun] = {}
    for path in files:
        rows = _rows(path)
        if "attempt" not in rows[0]:
            run = json.dumps([[row.get(name) for name in IDENTITY] for row in rows])
            found.setdefault(run, _recording(str(path.relative_to(folder)), rows))
    return list(found.values())


def _rows(path: Path) -> list[dict[str, Any]]:
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _recording(name: str, rows: list[dict[str, Any]]) -> LabelledRun:
    steps = [
        Observation(
            step=int(row["step"]),
            signals={name: float(value) for name, value in row.items() if name != "step" and _is_number(value)},
        )
        for row in rows
    ]
    return LabelledRun(name=name, truth=_recorded_truth(steps), observations=steps)


def _recorded_truth(steps: list[Observation]) -> Truth:
    rewards = np.array([observation.signals.get("reward/mean", math.nan) for observation in steps])
    grads = [observation.signals.get("grad/norm", 0.0) for observation in steps]
    broken = next((row for row, grad in enumerate(grads) if not math.isfinite(grad)), None)
    row = collapse_step(np.nan_to_num(rewards), bad_from=broken)
    if row is None:
        return Truth(group=Group.BENIGN, kind="survived")
    first = steps[0].step
    return Truth(group=Group.DISPLACEMENT, kind="collapsed", onset=first, acceleration=first, collapse=steps[row].step)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
