"""Suite C: real logs. Negatives must stay quiet; events are to be warned of before, or at least soon after."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.detection.baselines import baselines, random_trace
from benchmarks.detection.by_repository import populations_table
from benchmarks.detection.corpus import labelled_corpus
from benchmarks.detection.engine import ENGINE_STANDARD, engines
from benchmarks.detection.intervals import clopper_pearson
from benchmarks.detection.peers import peer_traces
from benchmarks.detection.runs import Group
from benchmarks.detection.scoring import FalseAlarms, false_alarms
from benchmarks.detection.tables import Section, Table, interval, percent
from benchmarks.detection.traces import Trace
from benchmarks.detection.workers import Traces, trace_run

__all__ = ["alarmed_by", "collect", "numbers", "section"]

_NOTE = """{negatives} negatives ({rows:,} rows), {events} events, {hard} hard cases (a dip that recovers, a length
explosion: a warning is acceptable, a page is false). No log holds likelihoods or the paired channel. At or before: at
any distance; timely: opened within the {timely} rows up to it; +3 and +5: rows after it. The rules were chosen on these
logs, so these numbers describe the fit. `python -m benchmarks.detection.leave_one_out` gives what the choice is worth
on a repository that it did not see, and hidden logs are scored by those who hold them. Intervals of counts are exact,
95 %; those of shares by repository come from drawing repositories with replacement."""
WARN_SLACK, PAGE_SLACK = 3, 5  # rows after the event that still count
TIMELY_ROWS = 30  # an alarm long before may have had nothing to do with the event


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """The counts of one candidate on suite C."""

    warned: FalseAlarms
    paged: FalseAlarms
    hard: int
    hard_paged: int
    events: int
    warned_earlier: int
    warned_before: int
    warned_timely: int
    warned_after: int
    paged_before: int
    paged_after: int


def collect(folders: Sequence[Path], peers: Path | None) -> Traces:
    """Run our engine, the baselines and, given their interpreter, the peers over folders of labelled logs."""
    runs = labelled_corpus(*folders)
    traces: Traces = {}
    candidates = [candidate for candidate in engines() if candidate.name == ENGINE_STANDARD]
    for run in runs:
        for name, found in trace_run(run, [*candidates, *baselines()]).items():
            traces.setdefault(name, []).extend(found)
    warn, page = (false_alarms(traces[ENGINE_STANDARD], level).rate / 1000.0 for level in ("warn", "page"))
    ours = traces[ENGINE_STANDARD]
    traces["random, our rate"] = [random_trace(trace, warn_rate=warn, page_rate=page) for trace in ours]
    return traces | (peer_traces(peers, runs) if peers else {})


def section(traces: Traces) -> Section:
    """Return the report on suite C."""
    scores = {name: _count(found) for name, found in traces.items()}
    ours = scores[ENGINE_STANDARD]
    return Section(
        title="Suite C: real logs",
        notes=[
            _NOTE.format(
                negatives=ours.warned.runs,
                rows=ours.warned.rows,
                events=ours.events,
                hard=ours.hard,
                timely=TIMELY_ROWS,
            ),
        ],
        tables=[
            populations_table(f"{ENGINE_STANDARD}, by population", traces[ENGINE_STANDARD]),
            Table(title="Candidates", header=_HEADER, rows=[_row(name, score) for name, score in scores.items()]),
            _false_table(traces[ENGINE_STANDARD]),
            _event_table(traces[ENGINE_STANDARD]),
        ],
    )


def numbers(traces: Traces) -> dict[str, object]:
    """Return the scores of suite C as JSON values."""
    scores = {name: _count(found) for name, found in traces.items()}
    return {
        name: {
            "negatives": score.warned.runs,
            "rows": score.warned.rows,
            "warned": score.warned.alarmed,
            "paged": score.paged.alarmed,
            "pages": score.paged.episodes,
            "hard": score.hard,
            "hard_paged": score.hard_paged,
            "events": score.events,
            "warned_earlier": score.warned_earlier,
            "warned_before": score.warned_before,
            "warned_timely": score.warned_timely,
            "warned_by_3": score.warned_after,
            "paged_before": score.paged_before,
            "paged_by_5": score.paged_after,
        }
        for name, score in scores.items()
    }


def alarmed_by(trace: Trace, level: str, *, slack: int) -> bool:
    """Return whether an alarm opened at or before the event, or within ``slack`` rows after it."""
    event = trace.truth.collapse
    if event is None:
        return False
    after = trace.steps[trace.steps > event]
    last = event if not slack or not len(after) else int(after[min(slack, len(after)) - 1])
    return bool((trace.openings(level) <= last).any())


def _timely(trace: Trace) -> bool:
    """Return whether a warning opened within the last rows up to the event."""
    event = trace.truth.collapse
    if event is None:
        return False
    rows = trace.steps[trace.steps <= event][-TIMELY_ROWS:]
    openings = trace.openings("warn")
    return bool(len(rows) and ((openings >= rows[0]) & (openings <= event)).any())


def _count(traces: Sequence[Trace]) -> _Counts:
    events = [trace for trace in traces if trace.truth.group is Group.FAILURE]
    hard = [trace for trace in traces if trace.truth.group is Group.UNSCORED]
    return _Counts(
        warned=false_alarms(traces, "warn"),
        paged=false_alarms(traces, "page"),
        hard=len(hard),
        hard_paged=sum(len(trace.openings("page")) > 0 for trace in hard),
        events=len(events),
        warned_earlier=sum(_earlier(trace) for trace in events),
        warned_before=sum(alarmed_by(trace, "warn", slack=0) for trace in events),
        warned_timely=sum(_timely(trace) for trace in events),
        warned_after=sum(alarmed_by(trace, "warn", slack=WARN_SLACK) for trace in events),
        paged_before=sum(alarmed_by(trace, "page", slack=0) for trace in events),
        paged_after=sum(alarmed_by(trace, "page", slack=PAGE_SLACK) for trace in events),
    )


_HEADER = (
    "candidate",
    "negatives warned",
    "negatives paged",
    "pages / 1,000 rows",
    "hard paged",
    "warned on a row before",
    "at or before",
    "timely",
    f"by +{WARN_SLACK}",
    "paged before",
    f"by +{PAGE_SLACK}",
)


def _earlier(trace: Trace) -> bool:
    """Return whether a warning opened on a row before the event's."""
    event = trace.truth.collapse
    return event is not None and any(step < event for step in trace.openings("warn"))


def _row(name: str, score: _Counts) -> list[str]:
    return [
        name,
        f"{percent(score.warned.share)} {interval(score.warned.share_interval)}",
        f"{percent(score.paged.share)} {interval(score.paged.share_interval)}",
        f"{score.paged.rate:.3f} {interval(score.paged.rate_interval)}",
        f"{score.hard_paged} of {score.hard}",
        *(
            f"{count} of {score.events} {interval(clopper_pearson(count, score.events), digits=2)}"
            for count in (
                score.warned_earlier,
                score.warned_before,
                score.warned_timely,
                score.warned_after,
                score.paged_before,
                score.paged_after,
            )
        ),
    ]


def _false_table(traces: Sequence[Trace]) -> Table:
    rows = [
        [trace.run, trace.truth.kind, str(len(trace.steps)), _steps(trace, "warn"), _steps(trace, "page")]
        for trace in traces
        if trace.truth.group is Group.BENIGN and len(trace.openings("warn"))
    ]
    header = ("run", "label", "rows", "warned at steps", "paged at steps")
    return Table(title=f"{ENGINE_STANDARD}: negatives alarmed", header=header, rows=rows)


def _event_table(traces: Sequence[Trace]) -> Table:
    rows = []
    for trace in traces:
        if trace.truth.group is not Group.FAILURE or trace.truth.collapse is None:
            continue
        before = int((trace.steps < trace.truth.collapse).sum())
        rows.append(
            [
                trace.run,
                trace.truth.kind,
                f"{trace.truth.collapse} (row {before + 1} of {len(trace.steps)})",
                _steps(trace, "warn"),
                _steps(trace, "page"),
                _reason(trace, before),
            ]
        )
    header = ("run", "label", "event at step", "warned at steps", "paged at steps", "verdict")
    return Table(title=f"{ENGINE_STANDARD}: every event", header=header, rows=rows)


def _steps(trace: Trace, level: str) -> str:
    openings = [str(step) for step in trace.openings(level)]
    return ", ".join(openings[:4]) + (f" and {len(openings) - 4} more" if len(openings) > 4 else "")  # noqa: PLR2004 - what fits a cell


def _reason(trace: Trace, before: int) -> str:
    if alarmed_by(trace, "warn", slack=0):
        return "warned before" if _earlier(trace) else "warned at its row"
    found = trace.openings("warn")
    if not len(found):
        return f"missed: never alarmed; {before} rows before the event"
    rows_late = int(((trace.steps > (trace.truth.collapse or 0)) & (trace.steps <= found[0])).sum())
    if alarmed_by(trace, "warn", slack=WARN_SLACK):
        return f"{rows_late} rows late; {before} rows before the event"
    return f"missed: first alarm {rows_late} rows late; {before} rows before the event"
