"""Suite A as sections of the report: targets, levels, phases, kinds, twins, misses."""

from collections.abc import Sequence

import numpy as np

from benchmarks.detection.authored import benign, displacement, failures
from benchmarks.detection.authored.suite import (
    DEVELOPMENT_SEEDS,
    benign_kinds,
    displacement_kinds,
    failure_kinds,
    generator_hash,
)
from benchmarks.detection.candidates.engine import ENGINE, ENGINE_STANDARD
from benchmarks.detection.candidates.peers import PEERS
from benchmarks.detection.candidates.workers import Traces
from benchmarks.detection.results_page.tables import Section, Table, interval, percent
from benchmarks.detection.runs import Group
from benchmarks.detection.scoring.alarms import false_alarms, leads
from benchmarks.detection.scoring.phases import score_phases
from benchmarks.detection.scoring.scores import (
    SLACK_STEPS,
    LevelScore,
    Miss,
    caught_by,
    misses,
    score_level,
    twin_auroc,
)
from benchmarks.detection.scoring.traces import LEVELS, Trace
from benchmarks.detection.suites.suite_a import PEER_RUNS, AuthoredSuite
from benchmarks.detection.suites.suite_a_targets import targets_table
from monitor_server.detection.base_classes.detector import DETECTOR_VERSION

__all__ = ["sections"]


def sections(suite: AuthoredSuite) -> list[Section]:
    """Return the report on suite A."""
    scores = {name: {level: score_level(traces, level) for level in LEVELS} for name, traces in suite.runs.items()}
    return [
        Section(
            title="Suite A: authored runs" + (", beside peers" if _has_peers(suite) else ""),
            notes=[_provenance(suite)],
            tables=[
                targets_table(suite.runs),
                _level_table("Warnings", scores, "warn"),
                _level_table("Pages", scores, "page"),
                _phase_table(suite.runs),
                _benign_table(suite.runs),
                _displacement_table(suite.runs),
                _failure_table(suite.runs),
                _twin_table(suite.twins),
                _engine_table(suite),
                _kind_table(),
            ],
        ),
        Section(
            title="Suite A: every displacement run missed" + (", beside peers" if _has_peers(suite) else ""),
            notes=["A miss is a run on which no alarm opened from the onset t₁ to the collapse T_c."],
            tables=[_miss_table(name, suite.runs[name]) for name in (ENGINE, ENGINE_STANDARD)],
        ),
    ]


def _provenance(suite: AuthoredSuite) -> str:
    traces = suite.runs[ENGINE]
    count = {group: sum(trace.truth.group is group for trace in traces) for group in Group}
    rows = sum(len(trace.steps) for trace in traces if trace.truth.group is Group.BENIGN)
    which = "development" if suite.seeds.start in DEVELOPMENT_SEEDS else "test"
    return (
        f"{count[Group.BENIGN]} benign runs ({rows:,} rows), {count[Group.DISPLACEMENT]} displacement runs, "
        f"{count[Group.FAILURE]} runs of other failures. Generator {generator_hash()}, {which} seeds "
        f"{suite.seeds.start} to {suite.seeds.stop - 1}. Detectors {DETECTOR_VERSION}. Intervals are exact, 95 %."
        + (f" Peers saw the first {min(PEER_RUNS, len(suite.seeds))} seeds of each kind." if _has_peers(suite) else "")
    )


def _has_peers(suite: AuthoredSuite) -> bool:
    return bool(set(PEERS.values()) & suite.runs.keys())


def _level_table(title: str, scores: dict[str, dict[str, LevelScore]], level: str) -> Table:
    header = (
        "candidate",
        "benign runs alarmed",
        "episodes / 1,000 rows",
        "recall ≥ 5",
        "≥ 10",
        "≥ 20",
        "lead median",
        "p10",
        "before t₁",
        "delay",
        "EWU",
        "NAB",
        "VUS-PR",
        "flaps",
    )
    return Table(title=title, header=header, rows=[_level_row(name, score[level]) for name, score in scores.items()])


def _level_row(name: str, score: LevelScore) -> list[str]:
    return [
        name,
        f"{percent(score.benign_share)} {interval(score.benign_share_interval)}",
        f"{score.per_1000:.3f} {interval(score.per_1000_interval)}",
        f"{score.recall_5:.3f}",
        f"{score.recall_10:.3f} {interval(score.recall_10_interval)}",
        f"{score.recall_20:.3f}",
        f"{score.lead_median:.0f}",
        f"{score.lead_p10:.0f}",
        percent(score.early),
        _steps(score.delay_median),
        f"{score.utility:.2f}",
        f"{score.nab:.0f}",
        f"{score.vus_pr:.2f}",
        f"{score.flaps:.2f}",
    ]


def _steps(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.0f}"


def _phase_table(runs: Traces) -> Table:
    rows = []
    for name, traces in runs.items():
        score = score_phases(traces)
        if score is not None:
            rows.append(
                [
                    name,
                    f"{score.accuracy:.3f}",
                    f"{score.f1_displacement:.3f}",
                    f"{score.f1_all:.3f}",
                    percent(score.benign_mislabelled),
                    _steps(score.decay_delay),
                    _steps(score.acceleration_delay),
                ]
            )
    header = ("candidate", "step accuracy", "macro-F1", "all runs", "benign rows II or III", "delay II", "delay III")
    return Table(title="Phases (accuracy and F1 on displacement runs)", header=header, rows=rows)


def _benign_table(runs: Traces) -> Table:
    rows = []
    for kind in benign_kinds():
        cells = [kind.removeprefix("benign/")]
        for name in (ENGINE, ENGINE_STANDARD):
            found = [trace for trace in runs[name] if trace.truth.kind == kind]
            for level in LEVELS:
                false = false_alarms(found, level)
                cells.append(f"{percent(false.share)} {interval(false.share_interval, digits=2)}")
        rows.append(cells)
    header = ("benign kind", "warned, paired", "paged, paired", "warned, standard", "paged, standard")
    return Table(title="False alarms of rlvitals by kind, share of runs", header=header, rows=rows)


def _displacement_table(runs: Traces) -> Table:
    rows = []
    for kind in displacement_kinds():
        cells = [kind.removeprefix("displacement/")]
        for name in (ENGINE, ENGINE_STANDARD):
            for level in LEVELS:
                found = leads([trace for trace in runs[name] if trace.truth.kind == kind], level)
                bounds = interval(found.recall_interval(10), digits=2)
                cells.append(f"{found.recall(5):.2f} {found.recall(10):.2f} {bounds} {found.quantile(0.5):.0f}")
        rows.append(cells)
    header = ("displacement kind", "warn, paired", "page, paired", "warn, standard", "page, standard")
    return Table(
        title="Leads of rlvitals by kind: recall ≥ 5, recall ≥ 10 with its interval, median lead",
        header=header,
        rows=rows,
    )


def _failure_table(runs: Traces) -> Table:
    rows = []
    for kind in failure_kinds():
        found = [trace for trace in runs[ENGINE] if trace.truth.kind == kind]
        span = np.median([(trace.truth.collapse or 0) - (trace.truth.onset or 0) for trace in found])
        cells = [kind.removeprefix("failure/"), str(len(found)), f"{span:.0f}"]
        for level in LEVELS:
            ahead = leads(found, level)
            caught = caught_by(found, level, slack=SLACK_STEPS) / len(found)
            before = f"{ahead.recall(1):.2f} {interval(ahead.recall_interval(1), digits=2)}"
            cells += [before, f"{ahead.quantile(0.5):.0f}", f"{caught:.2f}"]
        rows.append(cells)
    header = (
        "failure",
        "runs",
        "onset to collapse",
        "warned before",
        "lead",
        f"by +{SLACK_STEPS}",
        "paged before",
        "lead",
        f"by +{SLACK_STEPS}",
    )
    return Table(title="Other failures, rlvitals with the paired channel", header=header, rows=rows)


def _twin_table(twins: dict[str, Traces]) -> Table:
    windows = [(twin, until) for twin in twins for until in ("acceleration", "collapse")]
    rows = [
        [name, *(f"{twin_auroc(twins[twin][name], until=until):.2f}" for twin, until in windows)]
        for name in next(iter(twins.values()))
    ]
    ends = {"acceleration": "t₂", "collapse": "T_c"}
    header = ("candidate", *(f"{twin.replace('_', ' ')}, [t₁, {ends[until]})" for twin, until in windows))
    return Table(title="Matched twins, equal until t₂: AUROC of the strongest alarm", header=header, rows=rows)


def _engine_table(suite: AuthoredSuite) -> Table:
    same = f"of {suite.probes} runs the same"
    rows = [
        ["restarted from its state every 17 rows", f"{suite.probes - suite.restart_mismatches} {same}"],
        ["given every row twice", f"{suite.probes - suite.duplicate_mismatches} {same}"],
    ]
    return Table(title="The engine", header=("what", "measured"), rows=rows)


def _kind_table() -> Table:
    groups = {"benign": benign.KINDS, "displacement": displacement.KINDS, "failure": failures.KINDS}
    rows = [
        [f"{group}/{name}", (kind.__doc__ or "").split("\n")[0]]
        for group, kinds in groups.items()
        for name, kind in kinds.items()
    ]
    return Table(title="The kinds", header=("kind", "what the run does"), rows=rows)


def _miss_table(name: str, traces: Sequence[Trace]) -> Table:
    found: list[Miss] = [miss for level in LEVELS for miss in misses(traces, level)]
    rows = [[m.run, m.level, str(m.onset), str(m.acceleration), str(m.collapse), m.reason] for m in found]
    header = ("run", "level", "t₁", "t₂", "T_c", "reason")
    return Table(title=f"{name}: {len(rows)} misses", header=header, rows=rows)
