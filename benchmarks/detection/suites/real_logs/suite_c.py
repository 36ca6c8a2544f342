"""Suite C: real logs. Negatives must stay quiet; events are to be warned of before, or at least soon after."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.detection.candidates.baselines import baselines, random_trace
from benchmarks.detection.candidates.engine import ENGINE_STANDARD, engines
from benchmarks.detection.candidates.peers import peer_traces
from benchmarks.detection.candidates.workers import Traces, trace_run
from benchmarks.detection.results_page.tables import Section, Table, count_of, interval, percent
from benchmarks.detection.runs import Group
from benchmarks.detection.scoring.alarms import FalseAlarms, false_alarms
from benchmarks.detection.scoring.traces import LEVELS, Trace
from benchmarks.detection.suites.real_logs.by_repository import populations_table
from benchmarks.detection.suites.real_logs.corpus import labelled_corpus
from benchmarks.detection.suites.real_logs.events import LEAD_ROWS, PAGE_SLACK, WARN_SLACK, alarmed_within
from benchmarks.detection.suites.real_logs.suite_c_lists import event_table, false_table, hard_table

__all__ = ["collect", "numbers", "section"]

_NOTE = """{negatives} negatives ({rows:,} rows), {events} events, {hard} hard cases (a dip that recovers, a length
explosion: a warning is acceptable, a page is false). No log holds likelihoods or the paired channel. An alarm of an
event opens within the {lead} rows before it; +3 and +5: or so many rows after it. An alarm that opened earlier counts
for nothing, even if it still holds at the event. The rules were chosen on these logs, so these numbers describe the
fit. `python -m benchmarks.detection.leave_one_out` gives what the choice is worth on a repository that it did not see,
and hidden logs are scored by those who hold them. Intervals of counts are exact, 95 %; those of shares by repository
come from drawing repositories with replacement. There is none (–) for fewer than five repositories or equal shares."""


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
    warn, page = (false_alarms(traces[ENGINE_STANDARD], level).rate / 1000.0 for level in LEVELS)
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
                lead=LEAD_ROWS,
            ),
        ],
        tables=[
            populations_table(f"{ENGINE_STANDARD}, by population", traces[ENGINE_STANDARD]),
            Table(title="Candidates", header=_HEADER, rows=[_row(name, score) for name, score in scores.items()]),
            false_table(f"{ENGINE_STANDARD}: every alarm of a negative", traces[ENGINE_STANDARD]),
            hard_table(f"{ENGINE_STANDARD}: every page of a hard case", traces[ENGINE_STANDARD]),
            event_table(f"{ENGINE_STANDARD}: every event", traces[ENGINE_STANDARD]),
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
            "warned_by_3": score.warned_after,
            "paged_before": score.paged_before,
            "paged_by_5": score.paged_after,
        }
        for name, score in scores.items()
    }


def _count(traces: Sequence[Trace]) -> _Counts:
    events = [trace for trace in traces if trace.truth.group is Group.FAILURE]
    hard = [trace for trace in traces if trace.truth.group is Group.UNSCORED]
    return _Counts(
        warned=false_alarms(traces, "warn"),
        paged=false_alarms(traces, "page"),
        hard=len(hard),
        hard_paged=sum(len(trace.openings("page")) > 0 for trace in hard),
        events=len(events),
        warned_earlier=_alarmed(events, "warn", -1),
        warned_before=_alarmed(events, "warn", 0),
        warned_after=_alarmed(events, "warn", WARN_SLACK),
        paged_before=_alarmed(events, "page", 0),
        paged_after=_alarmed(events, "page", PAGE_SLACK),
    )


def _alarmed(events: Sequence[Trace], level: str, after: int) -> int:
    return sum(alarmed_within(trace, level, before=LEAD_ROWS, after=after) for trace in events)


_HEADER = (
    "candidate",
    "negatives warned",
    "negatives paged",
    "pages / 1,000 rows",
    "hard paged",
    "warned on a row before",
    "at or before",
    f"by +{WARN_SLACK}",
    "paged before",
    f"by +{PAGE_SLACK}",
)


def _row(name: str, score: _Counts) -> list[str]:
    return [
        name,
        f"{percent(score.warned.share)} {interval(score.warned.share_interval)}",
        f"{percent(score.paged.share)} {interval(score.paged.share_interval)}",
        f"{score.paged.rate:.3f} {interval(score.paged.rate_interval)}",
        f"{score.hard_paged} of {score.hard}",
        *(
            count_of(count, score.events)
            for count in (
                score.warned_earlier,
                score.warned_before,
                score.warned_after,
                score.paged_before,
                score.paged_after,
            )
        ),
    ]
