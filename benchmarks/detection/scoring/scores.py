"""All numbers of one candidate at one level, ready for a table or JSON."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.detection.runs import Group, Truth
from benchmarks.detection.scoring.alarms import auroc, false_alarms, flaps, leads, nab, utility
from benchmarks.detection.scoring.traces import Trace
from benchmarks.detection.scoring.vus import vus_pr

__all__ = ["SLACK_STEPS", "LevelScore", "Miss", "caught_by", "misses", "score_level", "twin_auroc"]

SLACK_STEPS = 5  # after the collapse, in which an alarm of another failure still counts
WEIGHTS = {"warn": 0.5, "page": 5.0}  # the cost of a false alarm per 1,000 rows, in units of a perfect lead


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelScore:
    """False alarms on benign runs and leads on failing runs; intervals are exact, 95 %."""

    benign_runs: int
    benign_alarmed: int
    benign_share: float
    benign_share_interval: tuple[float, float]
    rows: int
    episodes: int
    per_1000: float
    per_1000_interval: tuple[float, float]
    failing_runs: int
    recall_5: float
    recall_10: float
    recall_10_interval: tuple[float, float]
    recall_20: float
    lead_median: float
    lead_p10: float
    early: float
    delay_median: float
    utility: float
    nab: float
    vus_pr: float
    flaps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A failing run without an alarm in time, and the reason."""

    run: str
    level: str
    onset: int
    acceleration: int
    collapse: int
    reason: str


def score_level(traces: Sequence[Trace], level: str, *, threshold: float = 1.0) -> LevelScore:
    """Score one candidate's traces at ``"warn"`` or ``"page"``; failing runs are those of displacement."""
    false = false_alarms(traces, level, threshold=threshold)
    sick = [trace for trace in traces if trace.truth.group is Group.DISPLACEMENT]
    ahead = leads(sick, level, threshold=threshold)
    return LevelScore(
        benign_runs=false.runs,
        benign_alarmed=false.alarmed,
        benign_share=false.share,
        benign_share_interval=false.share_interval,
        rows=false.rows,
        episodes=false.episodes,
        per_1000=false.rate,
        per_1000_interval=false.rate_interval,
        failing_runs=len(ahead.steps),
        recall_5=ahead.recall(5),
        recall_10=ahead.recall(10),
        recall_10_interval=ahead.recall_interval(10),
        recall_20=ahead.recall(20),
        lead_median=ahead.quantile(0.5),
        lead_p10=ahead.quantile(0.1),
        early=ahead.early / len(ahead.steps) if ahead.steps else 0.0,
        delay_median=ahead.median_delay,
        utility=utility(ahead.steps, false.rate, weight=WEIGHTS[level]),
        nab=nab(traces, level),
        vus_pr=vus_pr(traces, level),
        flaps=flaps(traces, level),
    )


def misses(traces: Sequence[Trace], level: str) -> list[Miss]:
    """List the displacement runs on which no alarm opened between onset and collapse."""
    found = []
    for trace in traces:
        truth = trace.truth
        if truth.group is not Group.DISPLACEMENT or truth.onset is None or truth.collapse is None:
            continue
        openings = trace.openings(level).tolist()
        if not any(truth.onset <= step < truth.collapse for step in openings):
            found.append(
                Miss(
                    run=trace.run,
                    level=level,
                    onset=truth.onset,
                    acceleration=truth.acceleration or truth.onset,
                    collapse=truth.collapse,
                    reason=_reason(openings, truth.onset, truth.collapse),
                )
            )
    return found


def caught_by(traces: Sequence[Trace], level: str, *, slack: int) -> int:
    """Count the failing runs on which an alarm opened from the onset to ``slack`` steps after the collapse."""
    return sum(any(_in_reach(step, trace.truth, slack) for step in trace.openings(level)) for trace in traces)


def twin_auroc(pairs: Sequence[Trace], *, until: str = "collapse") -> float:
    """Return the AUROC of dying against living twins, from the strongest alarm from t₁ on.

    Args:
        pairs: Traces of one candidate in the order dying, living, dying, living, ….
        until: The end of the dying run's window, ``"collapse"`` or ``"acceleration"``.
    """
    dead, alive = pairs[::2], pairs[1::2]
    return auroc(
        [_strongest(trace, trace.truth, until) for trace in dead],
        [_strongest(trace, sick.truth, until) for trace, sick in zip(alive, dead, strict=True)],
    )


def _strongest(trace: Trace, window: Truth, until: str) -> float:
    end = window.collapse if until == "collapse" else window.acceleration
    inside = (trace.steps >= (window.onset or 0)) & (trace.steps < (end or 0))
    warn, page = trace.warn[inside], trace.page[inside]
    strongest_page = float(page.max(initial=0.0))
    return 1e6 + strongest_page if strongest_page >= 1.0 else float(warn.max(initial=0.0))


def _in_reach(step: int, truth: Truth, slack: int) -> bool:
    return truth.onset is not None and truth.collapse is not None and truth.onset <= step <= truth.collapse + slack


def _reason(openings: list[int], onset: int, collapse: int) -> str:
    early = [step for step in openings if step < onset]
    late = [step for step in openings if step >= collapse]
    if early and late:
        return f"false alarm at step {early[-1]}, then nothing new until {late[0] - collapse} steps after the collapse"
    if early:
        return f"false alarm at step {early[-1]}, {onset - early[-1]} before the onset, and nothing new since"
    if late:
        return f"late: {late[0] - collapse} steps after the collapse"
    return "never alarmed"
