"""The accuracy of a candidate's phases: accuracy, macro-F1, delays, and benign rows that are called decay."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection.runs import Group, Truth
from benchmarks.detection.scoring.traces import PHASES, Trace
from monitor_server.detection.protocol import Phase

__all__ = ["PhaseScore", "macro_f1", "score_phases"]

# the classes; a run that is not yet failing is quiet, whatever phase the candidate names
QUIET, DECAY, ACCELERATION = 0, 1, 2
_CLASS = np.array(
    [
        {Phase.DECAY: DECAY, Phase.ACCELERATION: ACCELERATION, Phase.COLLAPSED: ACCELERATION}.get(p, QUIET)
        for p in PHASES
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseScore:
    """Phase naming over rows before the collapse; delays in steps, over runs where the phase was ever named."""

    accuracy: float
    f1_displacement: float
    f1_all: float
    benign_mislabelled: float
    decay_delay: float
    acceleration_delay: float


def score_phases(traces: Iterable[Trace]) -> PhaseScore | None:
    """Score the phases of displacement and benign runs; None where the candidate names no phases."""
    kept = [t for t in traces if t.truth.group in {Group.BENIGN, Group.DISPLACEMENT} and (t.phases >= 0).any()]
    sick = [trace for trace in kept if trace.truth.group is Group.DISPLACEMENT]
    well = [trace for trace in kept if trace.truth.group is Group.BENIGN]
    if not sick or not well:
        return None
    true_sick, seen_sick = _classes(sick)
    true_well, seen_well = _classes(well)
    return PhaseScore(
        accuracy=float(np.mean(true_sick == seen_sick)),
        f1_displacement=macro_f1(true_sick, seen_sick),
        f1_all=macro_f1(np.concatenate([true_sick, true_well]), np.concatenate([seen_sick, seen_well])),
        benign_mislabelled=float(np.mean(seen_well != QUIET)),
        decay_delay=_median_delay(sick, DECAY),
        acceleration_delay=_median_delay(sick, ACCELERATION),
    )


def macro_f1(truth: NDArray[np.int64], seen: NDArray[np.int64]) -> float:
    """Return the mean F1 of the three classes; a class that neither side holds is left out."""
    scores = []
    for label in (QUIET, DECAY, ACCELERATION):
        hits = float(np.sum((truth == label) & (seen == label)))
        total = float(np.sum(truth == label) + np.sum(seen == label))
        if total > 0:
            scores.append(2.0 * hits / total)
    return float(np.mean(scores))


def _classes(traces: list[Trace]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    pairs = [_classes_of(trace) for trace in traces]
    return np.concatenate([true for true, _ in pairs]), np.concatenate([seen for _, seen in pairs])


def _classes_of(trace: Trace) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    before = trace.steps < _or_far(trace.truth.collapse)
    steps, seen = trace.steps[before], _CLASS[trace.phases[before]]
    return _true_classes(steps, trace.truth), seen


def _true_classes(steps: NDArray[np.int32], truth: Truth) -> NDArray[np.int64]:
    decay, acceleration = _or_far(truth.onset) <= steps, _or_far(truth.acceleration) <= steps
    return np.where(acceleration, ACCELERATION, np.where(decay, DECAY, QUIET))


def _median_delay(traces: list[Trace], label: int) -> float:
    delays = []
    for trace in traces:
        begin = _or_far(trace.truth.onset if label == DECAY else trace.truth.acceleration)
        late = (trace.steps >= begin) & (trace.steps < _or_far(trace.truth.collapse))
        named = trace.steps[late & (_CLASS[trace.phases] >= label)]
        if len(named):
            delays.append(int(named[0]) - begin)
    return float(np.median(delays)) if delays else float("nan")


def _or_far(step: int | None) -> int:
    return np.iinfo(np.int32).max if step is None else step
