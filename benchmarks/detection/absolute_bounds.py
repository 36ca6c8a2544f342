"""``python -m benchmarks.detection.absolute_bounds``: whether a fixed bound would find failures in short runs.

Clip share, truncation and silent groups are compared with their baselines, which a run of a few rows hardly has. Here
each of them is given a bound that holds from the first row on: an alarm opens if the signal is at or above the bound in
several successive rows that hold it. It is scored on suite C, on language models that hold the signal.
"""

import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.detection.corpus_command import corpus_parser, write_block
from benchmarks.detection.results_page.tables import Section, Table, as_text, count_true, percent
from benchmarks.detection.runs import Group, LabelledRun
from benchmarks.detection.scoring.traces import Mark, Trace
from benchmarks.detection.suites.real_logs.by_repository import SHORT_ROWS, repository, share_by_repository
from benchmarks.detection.suites.real_logs.corpus import labelled_corpus
from benchmarks.detection.suites.real_logs.events import LEAD_ROWS, WARN_SLACK, alarmed_within

__all__ = ["Bound", "bounds_table", "main", "traced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A bound of a signal, and the number of successive rows in which the signal must reach it."""

    signal: str
    least: float
    rows: int


BOUNDS = tuple(
    Bound(signal=signal, least=least, rows=rows)
    for signal, levels in (
        ("ratio/clip_frac", (0.01, 0.02, 0.05, 0.1)),
        ("length/truncated_frac", (0.5, 0.7, 0.9, 0.97)),
        ("reward/zero_std_frac", (0.7, 0.8, 0.9, 1.0)),
    )
    for least in levels
    for rows in (3, 10)
)
_NOTE = """Language models of suite C that hold the signal. An alarm opens at the last of so many successive rows at or
above the bound. Counts have exact 95 % intervals. Events are found if the alarm opens within {lead} rows before, or
{slack} after. The table of every event of suite C shows which of them the rules warn as they are."""


def traced(run: LabelledRun, bound: Bound) -> Trace | None:
    """Return the alarms of a bound on a run; None if the run does not hold the signal."""
    reached, marks, is_held = 0, [], False
    for observation in run.observations:
        value = observation.signals.get(bound.signal, math.nan)
        if math.isfinite(value):
            is_held = True
            reached = reached + 1 if value >= bound.least else 0
        marks.append(Mark(warn=float(reached >= bound.rows)))
    steps = [observation.step for observation in run.observations]
    return Trace.of(run.name, run.truth, steps, marks) if is_held else None


def bounds_table(runs: Sequence[LabelledRun], bounds: Sequence[Bound] = BOUNDS) -> Table:
    """Return how many healthy runs and failures each bound alarms."""
    rows = []
    for bound in bounds:
        traces = [trace for run in runs if (trace := traced(run, bound)) is not None]
        negatives = [trace for trace in traces if trace.truth.group is Group.BENIGN]
        short = [trace for trace in negatives if len(trace.steps) <= SHORT_ROWS]
        events = [trace for trace in traces if trace.truth.group is Group.FAILURE]
        by: defaultdict[str, list[bool]] = defaultdict(list)
        for trace in negatives:
            by[repository(trace.run)].append(_is_alarmed(trace))
        found = [alarmed_within(trace, "warn", before=LEAD_ROWS, after=WARN_SLACK) for trace in events]
        rows.append(
            [
                bound.signal,
                f"{bound.least:g} in {bound.rows} rows",
                count_true([_is_alarmed(trace) for trace in negatives]),
                percent(share_by_repository(by)),
                count_true([_is_alarmed(trace) for trace in short]),
                count_true(found),
            ]
        )
    header = (
        "signal",
        "bound",
        "negatives alarmed",
        "by repository",
        f"of at most {SHORT_ROWS} rows",
        f"events found by +{WARN_SLACK}",
    )
    return Table(title="Each bound", header=header, rows=rows)


def _is_alarmed(trace: Trace) -> bool:
    return len(trace.openings("warn")) > 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and write it to a page where one is given."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = corpus_parser("benchmarks.detection.absolute_bounds", __doc__)
    options = parser.parse_args(given)
    runs = [run for run in labelled_corpus(*options.corpus) if run.truth.is_language_model]
    note = _NOTE.format(lead=LEAD_ROWS, slack=WARN_SLACK)
    section = Section(title="Short runs with fixed bounds", notes=[note], tables=[bounds_table(runs)])
    sys.stdout.write(as_text([section]))
    write_block(options.write, "fixed bounds", section, prog=parser.prog, given=given)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
