"""Runs from files, with their truth: a labelled corpus of real logs (suite C), recordings of the trainer (suite B).

Reading rows is the importer's business; this module adds what truly happened.
"""

import gzip
import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.detection.authored.latent import collapse_step
from benchmarks.detection.runs import Group, LabelledRun, Truth
from monitor_server.detection.protocol import Observation
from monitor_server.importers.corpus import observations, read_meta, read_rows, run_folders

__all__ = ["HARD", "NEGATIVE", "POSITIVE", "labelled_corpus", "recordings"]

NEGATIVE = ("healthy", "plateau_noisy", "never_learns", "healthy_with_spikes")
HARD = ("transient_dip_recovered", "length_explosion")  # a warning is fine, a page is a false alarm
POSITIVE = (
    "reward_collapse",
    "nan",
    "gradient_explosion",
    "entropy_collapse",
    "kl_loss_explosion",
    "partial_degradation",
)


def labelled_corpus(folder: Path) -> list[LabelledRun]:
    """Give the runs of a folder in the form of ``shared/runs``; runs labelled unclear, or not at all, are left out.

    Raises:
        FileNotFoundError: If no run lies in the folder.
        ValueError: If no run carries a label that is scored.
    """
    runs = []
    for run in run_folders(folder):
        meta = read_meta(run)
        truth = _corpus_truth(meta)
        if truth is not None:
            runs.append(
                LabelledRun(name=run.name, truth=truth, observations=observations(read_rows(run), _names(meta)))
            )
    if not runs:
        raise ValueError(f"{folder} must hold runs whose meta.json has a label to score, found none")
    return runs


def recordings(folder: Path) -> list[LabelledRun]:
    """Give the reference trainer's recordings below a folder: ``*.jsonl`` or ``*.jsonl.gz``, canonical names.

    Truth comes from the reward itself: the collapse of `collapse_step`, or the first non-finite gradient. The onset
    of a drift is not known, so every alarm before the collapse counts.
    """
    files = sorted([*folder.rglob("*.jsonl"), *folder.rglob("*.jsonl.gz")])
    return [_recording(path, folder) for path in files]


def _recording(path: Path, folder: Path) -> LabelledRun:
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    steps = [
        Observation(
            step=int(row["step"]),
            signals={name: float(value) for name, value in row.items() if name != "step" and _is_number(value)},
        )
        for row in rows
    ]
    return LabelledRun(name=str(path.relative_to(folder)), truth=_recorded_truth(steps), observations=steps)


def _recorded_truth(steps: list[Observation]) -> Truth:
    rewards = np.array([observation.signals.get("reward/mean", math.nan) for observation in steps])
    grads = [observation.signals.get("grad/norm", 0.0) for observation in steps]
    broken = next((row for row, grad in enumerate(grads) if not math.isfinite(grad)), None)
    row = collapse_step(np.nan_to_num(rewards), bad_from=broken)
    if row is None:
        return Truth(group=Group.BENIGN, kind="survived")
    first = steps[0].step
    return Truth(group=Group.DISPLACEMENT, kind="collapsed", onset=first, acceleration=first, collapse=steps[row].step)


def _corpus_truth(meta: Mapping[str, object]) -> Truth | None:
    label = meta.get("label")
    if not isinstance(label, Mapping):
        return None
    kind, step = str(label.get("kind")), label.get("step")
    if kind in NEGATIVE:
        return Truth(group=Group.BENIGN, kind=kind)
    if kind in HARD:
        return Truth(group=Group.UNSCORED, kind=kind)
    if kind in POSITIVE and isinstance(step, int | float):
        return Truth(group=Group.FAILURE, kind=kind, onset=0, acceleration=0, collapse=int(step))
    return None


def _names(meta: Mapping[str, object]) -> dict[str, str] | None:
    signals = meta.get("signals")
    return {str(k): str(v) for k, v in signals.items()} if isinstance(signals, Mapping) else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
