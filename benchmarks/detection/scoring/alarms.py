"""Scores of alarms against truth, as pure functions (detection.md, section 5): lead beside false alarms.

An alarm counts where it opens. One that opened before the onset is false, even if it still holds when the failure
begins; it earns no lead. Suites are never pooled: a caller gives the traces of one suite and one candidate.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.detection.runs import Group, Truth
from benchmarks.detection.scoring.intervals import clopper_pearson, garwood
from benchmarks.detection.scoring.traces import Trace

__all__ = ["FalseAlarms", "Leads", "auroc", "delay", "false_alarms", "flaps", "lead", "leads", "nab", "utility"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseAlarms:
    """False alarms on benign runs: runs alarmed, episodes, rows; with exact 95 % intervals."""

    runs: int
    alarmed: int
    rows: int
    episodes: int

    @property
    def share(self) -> float:
        """Share of benign runs with an alarm."""
        return self.alarmed / self.runs if self.runs else 0.0

    @property
    def share_interval(self) -> tuple[float, float]:
        """Clopper-Pearson interval of the share."""
        return clopper_pearson(self.alarmed, self.runs)

    @property
    def rate(self) -> float:
        """Episodes per 1,000 benign rows."""
        return 1000.0 * self.episodes / self.rows if self.rows else 0.0

    @property
    def rate_interval(self) -> tuple[float, float]:
        """Garwood interval of the episodes per 1,000 rows."""
        return garwood(self.episodes, self.rows / 1000.0) if self.rows else (0.0, float("inf"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Leads:
    """Leads before the collapse, in steps; a miss is a lead of 0. ``early``: runs alarmed before the onset."""

    steps: tuple[int, ...]
    early: int
    delays: tuple[int, ...]

    def recall(self, at_least: int) -> float:
        """Share of runs alarmed at least so many steps before the collapse."""
        return sum(step >= at_least for step in self.steps) / len(self.steps) if self.steps else 0.0

    def recall_interval(self, at_least: int) -> tuple[float, float]:
        """Clopper-Pearson interval of the recall."""
        return clopper_pearson(sum(step >= at_least for step in self.steps), len(self.steps))

    def quantile(self, q: float) -> float:
        """Quantile of the leads, misses included."""
        return float(np.quantile(self.steps, q)) if self.steps else 0.0

    @property
    def median_delay(self) -> float:
        """Median steps from the onset to the alarm, of the runs that were alarmed."""
        return float(np.median(self.delays)) if self.delays else float("nan")


def lead(openings: Iterable[int], truth: Truth) -> int:
    """Return the steps from the first alarm that opens in [onset, collapse) to the collapse; 0 where none does."""
    if truth.onset is None or truth.collapse is None:
        return 0
    inside = [step for step in openings if truth.onset <= step < truth.collapse]
    return truth.collapse - min(inside) if inside else 0


def delay(openings: Iterable[int], begin: int, end: int) -> int | None:
    """Return the steps from ``begin`` to the first alarm that opens in [begin, end); None without an alarm."""
    inside = [step for step in openings if begin <= step < end]
    return min(inside) - begin if inside else None


def false_alarms(traces: Iterable[Trace], level: str, *, threshold: float = 1.0) -> FalseAlarms:
    """Count the false alarms on the benign runs among the traces."""
    benign = [trace for trace in traces if trace.truth.group is Group.BENIGN]
    counts = [len(trace.openings(level, threshold=threshold)) for trace in benign]
    return FalseAlarms(
        runs=len(benign),
        alarmed=sum(count > 0 for count in counts),
        rows=sum(len(trace.steps) for trace in benign),
        episodes=sum(counts),
    )


def leads(traces: Iterable[Trace], level: str, *, threshold: float = 1.0) -> Leads:
    """Measure the leads on the failing runs among the traces; delays of pages count from t₂, of warnings from t₁."""
    steps, early, delays = [], 0, []
    for trace in traces:
        truth = trace.truth
        if truth.onset is None or truth.collapse is None or truth.acceleration is None:
            continue
        openings = trace.openings(level, threshold=threshold).tolist()
        steps.append(lead(openings, truth))
        early += any(step < truth.onset for step in openings)
        begin = truth.onset if level == "warn" else truth.acceleration
        found = delay(openings, begin, truth.collapse)
        if found is not None:
            delays.append(found)
    return Leads(steps=tuple(steps), early=early, delays=tuple(delays))


def utility(leads_steps: Sequence[int], false_rate: float, *, weight: float) -> float:
    """Return the early-warning utility: mean clip((lead − 5)/35, 0, 1) − w · false alarms per 1,000 rows.

    Never alarming is worth 0. w is 0.5 for warnings, 5 for pages.
    """
    gain = float(np.mean(np.clip((np.asarray(leads_steps) - 5.0) / 35.0, 0.0, 1.0))) if len(leads_steps) else 0.0
    return gain - weight * false_rate


def nab(traces: Iterable[Trace], level: str, *, false_weight: float = 0.11) -> float:
    """Return the score of the Numenta Anomaly Benchmark: 0 without an alarm, 100 for an alarm at every onset.

    A failing run's window goes from its onset to its collapse. The first alarm that opens there is worth
    2 / (1 + e^5y) − 1, y from −1 at the onset to 0 at the collapse; a window without one costs 1, and an alarm on a
    benign run, or before the onset, ``false_weight``. This score is secondary, because it counts no steps and gives a
    false alarm little weight.

    Args:
        traces: Runs of any group; those neither benign nor failing of displacement are left out.
        level: ``"warn"`` or ``"page"``.
        false_weight: 0.11 in its standard profile, 0.22 in the one of few false alarms.

    Reference:
        Lavin and Ahmad, "Evaluating Real-Time Anomaly Detection Algorithms" (arXiv 1510.03336).
    """
    total, windows = 0.0, 0
    for trace in traces:
        truth, openings = trace.truth, trace.openings(level).tolist()
        if truth.group is Group.BENIGN:
            total -= false_weight * len(openings)
        elif truth.group is Group.DISPLACEMENT and truth.onset is not None and truth.collapse is not None:
            windows += 1
            total -= false_weight * sum(step < truth.onset for step in openings)
            found = delay(openings, truth.onset, truth.collapse)
            total += -1.0 if found is None else _nab_reward(found / (truth.collapse - truth.onset))
    return 100.0 * (total + windows) / (windows * (_nab_reward(0.0) + 1.0)) if windows else float("nan")


def _nab_reward(share: float) -> float:
    """Return the worth of an alarm after a share of the window has gone."""
    return 2.0 / (1.0 + math.exp(5.0 * (share - 1.0))) - 1.0


def flaps(traces: Iterable[Trace], level: str) -> float:
    """Return the mean number of times an alarm of a run opened again."""
    again = [max(0, len(trace.openings(level)) - 1) for trace in traces]
    return float(np.mean(again)) if again else 0.0


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Return P(positive > negative) + ½ P(equal): the area under the ROC curve.

    Raises:
        ValueError: If either side is empty.
    """
    if not len(positive) or not len(negative):
        raise ValueError(f"both sides need a score, got {len(positive)} and {len(negative)}")
    difference = np.subtract.outer(np.asarray(positive, dtype=float), np.asarray(negative, dtype=float))
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))
