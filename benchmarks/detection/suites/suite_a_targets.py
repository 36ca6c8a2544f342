"""The targets for suite A (detection.md, section 5), beside the results."""

from collections.abc import Sequence

from benchmarks.detection.candidates.engine import ENGINE, ENGINE_STANDARD
from benchmarks.detection.candidates.workers import Traces
from benchmarks.detection.results_page.tables import Table
from benchmarks.detection.scoring.alarms import leads
from benchmarks.detection.scoring.phases import PhaseScore, score_phases
from benchmarks.detection.scoring.scores import LevelScore, score_level
from benchmarks.detection.scoring.traces import LEVELS, Trace

__all__ = ["targets_table"]

# measure, target with the paired channel, target with standard metrics; the sign gives the good side
_TARGETS = (
    ("warned benign runs", "≤ 0.05", "≤ 0.08"),
    ("warnings / 1,000 rows", "≤ 0.20", "≤ 0.35"),
    ("warn recall, lead ≥ 10", "≥ 0.95", "≥ 0.85"),
    ("warn lead, median", "≥ 40", "≥ 28"),
    ("warn lead, p10", "≥ 14", "≥ 7"),
    ("paged benign runs", "≤ 0.010", "≤ 0.006"),
    ("pages / 1,000 rows", "≤ 0.03", "≤ 0.02"),
    ("pages / 1,000 rows, 95 % upper", "≤ 0.05", "≤ 0.04"),
    ("page recall, lead ≥ 5", "≥ 0.98", "≥ 0.95"),
    ("page recall, lead ≥ 10", "≥ 0.88", "≥ 0.75"),
    ("page lead, median", "≥ 15", "≥ 13"),
    ("benign runs paused (strength ≥ 3.5)", "≤ 0", ""),
    ("pauses / 1,000 rows, 95 % upper", "≤ 0.02", ""),
    ("pause recall, lead ≥ 5", "≥ 0.93", ""),
    ("sudden blow-up paged before T_c", "≥ 0.95", "≥ 0.90"),
    ("phase step accuracy, displacement runs", "≥ 0.65", "≥ 0.57"),
    ("phase macro-F1, all runs", "≥ 0.70", "≥ 0.63"),
    ("delay II", "≤ 30", "≤ 45"),
    ("delay III", "≤ 10", "≤ 14"),
    ("benign rows named II or III", "≤ 0.02", "≤ 0.03"),
)


PAUSE_STRENGTH = 3.5  # of a critical finding, at which a run may be paused automatically; chosen on development seeds


def targets_table(runs: Traces) -> Table:
    """Return the targets and the results, with the paired channel and without."""
    paired, standard = (_reached(runs[name]) for name in (ENGINE, ENGINE_STANDARD))
    rows = []
    for (what, goal, goal_standard), value, value_standard in zip(_TARGETS, paired, standard, strict=True):
        rows.append([what, goal, _cell(value, goal), goal_standard, _cell(value_standard, goal_standard)])
    return Table(
        title="Targets, and what was reached",
        header=("measure", "target, paired", "reached", "target, standard", "reached"),
        rows=rows,
    )


def _reached(traces: Sequence[Trace]) -> list[float]:
    warn, page = (score_level(traces, level) for level in LEVELS)
    sudden = leads([trace for trace in traces if trace.truth.kind == "failure/sudden"], "page")
    pause = score_level(traces, "page", threshold=PAUSE_STRENGTH)
    paused = [pause.benign_share, pause.per_1000_interval[1], pause.recall_5]
    return [*_warnings(warn), *_pages(page), *paused, sudden.recall(1), *_phases(score_phases(traces))]


def _warnings(score: LevelScore) -> list[float]:
    return [score.benign_share, score.per_1000, score.recall_10, score.lead_median, score.lead_p10]


def _pages(score: LevelScore) -> list[float]:
    return [
        score.benign_share,
        score.per_1000,
        score.per_1000_interval[1],
        score.recall_5,
        score.recall_10,
        score.lead_median,
    ]


def _phases(score: PhaseScore | None) -> list[float]:
    if score is None:
        return [float("nan")] * 5
    return [score.accuracy, score.f1_all, score.decay_delay, score.acceleration_delay, score.benign_mislabelled]


def _cell(value: float, goal: str) -> str:
    if not goal:
        return ""
    sign, bound = goal.split()
    met = value <= float(bound) if sign == "≤" else value >= float(bound)
    shown = f"{value:.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits show a miss by a hair
    return f"{shown} {'✓' if met else '✗'}"
