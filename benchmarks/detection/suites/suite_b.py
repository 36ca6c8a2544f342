"""Suite B: the reference trainer's own recordings. Nothing was tuned on them, and no lead is promised."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.detection.candidates.baselines import baselines
from benchmarks.detection.candidates.engine import ENGINE, engines
from benchmarks.detection.candidates.peers import peer_traces
from benchmarks.detection.candidates.workers import Traces, trace_run
from benchmarks.detection.results_page.tables import Section, Table, interval
from benchmarks.detection.runs import Group
from benchmarks.detection.scoring.alarms import false_alarms, leads
from benchmarks.detection.scoring.scores import score_level
from benchmarks.detection.scoring.traces import LEVELS, PHASES, Trace
from benchmarks.detection.suites.recordings import recordings

__all__ = ["collect", "numbers", "section"]

_NOTE = """{survived} runs that survived ({rows:,} rows), {collapsed} that collapsed. The collapse is the first step
where EMA₀.₂ of the reward lies under half of its running maximum for 10 steps; every alarm before it counts, as the
onset is not known."""


def collect(folder: Path, peers: Path | None) -> Traces:
    """Run our engine, the baselines and, given their interpreter, the peers over the recordings below a folder."""
    runs = recordings(folder)
    traces: Traces = {}
    for run in runs:
        for name, found in trace_run(run, [*engines(), *baselines()]).items():
            traces.setdefault(name, []).extend(found)
    return traces | (peer_traces(peers, runs) if peers and runs else {})


def section(traces: Traces) -> Section:
    """Return the report on suite B."""
    if not traces:
        return Section(title="Suite B: recorded runs of the reference trainer", notes=["No recordings were found."])
    ours = traces[ENGINE]
    survived = [trace for trace in ours if trace.truth.group is Group.BENIGN]
    rows = sum(len(trace.steps) for trace in survived)
    return Section(
        title="Suite B: recorded runs of the reference trainer",
        notes=[_NOTE.format(survived=len(survived), rows=rows, collapsed=len(ours) - len(survived))],
        tables=[
            Table(title="Candidates", header=_HEADER, rows=[_row(name, found) for name, found in traces.items()]),
            _run_table(ours),
        ],
    )


def numbers(traces: Traces) -> dict[str, object]:
    """Return the scores of suite B as JSON values."""
    return {name: {level: asdict(score_level(found, level)) for level in LEVELS} for name, found in traces.items()}


_HEADER = (
    "candidate",
    "survivors warned",
    "survivors paged",
    "pages / 1,000 rows",
    "collapses warned before",
    "median lead",
    "collapses paged before",
    "median lead",
)


def _row(name: str, traces: Sequence[Trace]) -> list[str]:
    warned, paged = (false_alarms(traces, level) for level in LEVELS)
    sick = [trace for trace in traces if trace.truth.group is Group.DISPLACEMENT]
    cells = [
        name,
        f"{warned.alarmed} of {warned.runs}",
        f"{paged.alarmed} of {paged.runs}",
        f"{paged.rate:.3f} {interval(paged.rate_interval)}" if paged.rows else "–",
    ]
    for level in LEVELS:
        ahead = leads(sick, level)
        cells += [f"{sum(step > 0 for step in ahead.steps)} of {len(sick)}", f"{ahead.quantile(0.5):.0f}"]
    return cells


def _run_table(traces: Sequence[Trace]) -> Table:
    rows = []
    for trace in traces:
        seen = [PHASES[index] for index in dict.fromkeys(trace.phases.tolist()) if index >= 0]
        rows.append(
            [
                trace.run,
                str(len(trace.steps)),
                "survived" if trace.truth.collapse is None else f"collapsed at {trace.truth.collapse}",
                ", ".join(str(step) for step in trace.openings("warn")[:4]),
                ", ".join(str(step) for step in trace.openings("page")[:4]),
                ", ".join(seen),
            ]
        )
    header = ("run", "rows", "what happened", "warned at", "paged at", "phases seen")
    return Table(title=f"{ENGINE}: every run", header=header, rows=rows)
