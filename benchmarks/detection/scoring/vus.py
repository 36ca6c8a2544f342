"""VUS-PR, a secondary score: the rank of the rows of a failure by strength above all others, over all thresholds."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection.runs import Group
from benchmarks.detection.scoring.traces import Trace

__all__ = ["BUFFERS", "vus_pr"]

BUFFERS = (0, 10, 20, 30, 40)  # steps


def vus_pr(traces: Iterable[Trace], level: str, *, buffers: Sequence[int] = BUFFERS) -> float:
    """Return the volume under the precision-recall surface over thresholds and buffers ℓ, in [0, 1].

    A failing run's anomaly goes from its onset to its collapse; later rows are left out. A row d ≤ ℓ/2 steps before an
    onset is half an anomaly, √(1 − d/ℓ). With labels y ≤ 1, a threshold that flags n rows has precision Σ y / n, and
    recall Σ y over the mean of hard and buffered positives, times the share of anomalies of which any row is flagged. A
    candidate gives no score to a row below its own threshold: all these rows are tied at 0. A candidate without an
    alarm therefore gets the share of anomalous rows, and an alarm counts only by its rows above the threshold.

    Args:
        traces: Runs of any group; those neither benign nor failing of displacement are left out.
        level: ``"warn"`` or ``"page"``.
        buffers: Each ℓ, steps.

    Reference:
        Paparrizos et al., "Volume Under the Surface" (PVLDB 15, 2022), sections 4.1 and 4.2.
    """
    kept = [_rows(t, level) for t in traces if t.truth.group in {Group.BENIGN, Group.DISPLACEMENT}]
    if not kept:
        return float("nan")
    score, ahead = (np.concatenate(columns) for columns in zip(*kept, strict=True))
    order = np.argsort(-score, kind="stable")
    flagged = np.flatnonzero(np.diff(score[order], append=-1.0)) + 1
    thresholds = score[order][flagged - 1]
    areas = []
    for buffer in buffers:
        label = np.where(ahead <= buffer / 2, np.sqrt(np.maximum(1.0 - ahead / max(buffer, 1), 0.0)), 0.0)
        peaks = np.sort([s[a <= buffer / 2].max() for s, a in kept if (a <= buffer / 2).any()])
        found = 1.0 - np.searchsorted(peaks, thresholds) / max(1, len(peaks))
        hits = np.cumsum(label[order])[flagged - 1]
        positives = (np.sum(ahead == 0) + label.sum()) / 2
        recall = np.minimum(hits / max(positives, 1.0), 1.0) * found
        areas.append(float(np.sum(np.diff(recall, prepend=0.0) * hits / flagged)))
    return float(np.mean(areas))


def _rows(trace: Trace, level: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the strength of each row before the collapse, and its steps before the onset: 0 after it, ∞ where none."""
    truth = trace.truth
    before = trace.steps < (np.inf if truth.collapse is None else truth.collapse)
    onset = np.inf if truth.onset is None else truth.onset
    strength = (trace.warn if level == "warn" else trace.page)[before].astype(np.float64)
    return np.minimum(strength, 1e9), np.maximum(onset - trace.steps[before].astype(np.float64), 0.0)
