"""Every miss and every false alarm of one candidate on suite C, with the findings that opened and their reason."""

from collections.abc import Callable, Sequence

from benchmarks.detection.results_page.tables import Table
from benchmarks.detection.runs import Group
from benchmarks.detection.scoring.traces import LEVELS, Opening, Trace
from benchmarks.detection.suites.real_logs.events import verdict

__all__ = ["event_table", "false_table", "hard_table"]


def false_table(title: str, traces: Sequence[Trace]) -> Table:
    """Return each warning and page that opened in a healthy run, with what it found there."""
    alarmed = [trace for trace in traces if trace.truth.group is Group.BENIGN]
    return _openings_table(title, alarmed, LEVELS)


def hard_table(title: str, traces: Sequence[Trace]) -> Table:
    """Return each page that opened in a hard case, where a page is false and a warning is not."""
    hard = [trace for trace in traces if trace.truth.group is Group.UNSCORED]
    return _openings_table(title, hard, ("page",))


def event_table(title: str, traces: Sequence[Trace]) -> Table:
    """Return each event with all alarms of its run, and the verdict on its warning and its page."""
    rows = []
    for trace in traces:
        if trace.truth.group is not Group.FAILURE or trace.truth.collapse is None:
            continue
        row = int((trace.steps < trace.truth.collapse).sum()) + 1
        rows.append(
            [
                trace.run,
                trace.truth.kind,
                f"{trace.truth.collapse} (row {row} of {len(trace.steps)})",
                ", ".join(map(str, trace.openings("warn"))),
                ", ".join(map(str, trace.openings("page"))),
                verdict(trace, "warn"),
                verdict(trace, "page"),
            ]
        )
    header = ("run", "label", "event at step", "warned at steps", "paged at steps", "the warning", "the page")
    return Table(title=title, header=header, rows=rows)


def _openings_table(title: str, traces: Sequence[Trace], levels: Sequence[str]) -> Table:
    rows = [
        [
            trace.run,
            f"{trace.truth.kind}, {len(trace.steps)} rows",
            str(step),
            "page" if level == "page" else "warning",
            _join(trace, step, level, lambda opening: opening.kind),
            _join(trace, step, level, lambda opening: opening.summary),
        ]
        for trace in traces
        for level in levels
        for step in trace.openings(level).tolist()
    ]
    header = ("run", "label", "opened at step", "alarm", "kinds", "what was found")
    return Table(title=title, header=header, rows=rows)


def _join(trace: Trace, step: int, level: str, text: Callable[[Opening], str]) -> str:
    """Return a text of each finding that opened an episode, without repeats."""
    opened = [o for o in trace.opened if o.step == step and (o.is_page or level == "warn")]
    return "; ".join(dict.fromkeys(text(opening).rstrip(".") for opening in opened))
