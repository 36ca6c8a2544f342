"""Suite C weighed by repository: a repository with 70 runs counts as much as one with a single run.

A share by repository is the mean over repositories of the share of its runs. Its interval comes from drawing
repositories with replacement, because runs of one repository are alike. The interval of a plain count is exact.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.detection.results_page.tables import Table, interval, percent
from benchmarks.detection.runs import Group
from benchmarks.detection.scoring.intervals import clopper_pearson
from benchmarks.detection.scoring.traces import Trace
from benchmarks.detection.suites.real_logs.events import LEAD_ROWS, PAGE_SLACK, WARN_SLACK, alarmed_within

__all__ = ["POPULATIONS", "SHORT_ROWS", "populations_table", "repository", "share_by_repository"]

SHORT_ROWS = 60
DRAWS = 10_000

POPULATIONS: dict[str, Callable[[Trace], bool]] = {
    "language models": lambda trace: trace.truth.is_language_model,
    f"of them, at most {SHORT_ROWS} rows": lambda t: t.truth.is_language_model and len(t.steps) <= SHORT_ROWS,
    f"of them, more than {SHORT_ROWS} rows": lambda t: t.truth.is_language_model and len(t.steps) > SHORT_ROWS,
    "other models": lambda trace: not trace.truth.is_language_model,
}


def repository(run: str) -> str:
    """Return the repository of a run, by its name.

    >>> repository("owner-project__logs-run-3")
    'owner-project'
    """
    return run.split("__", maxsplit=1)[0]


def share_by_repository(
    found: Mapping[str, Sequence[bool]], *, draws: int = DRAWS
) -> tuple[float, tuple[float, float]]:
    """Return the mean over repositories of the share that is true, and its 95 % interval over drawn repositories.

    >>> share, _ = share_by_repository({"a": [True, True, True, True], "b": [False]})
    >>> share
    0.5
    """
    shares = np.array([sum(values) / len(values) for values in found.values()])
    if not len(shares):
        return 0.0, (0.0, 1.0)
    if not draws:
        return float(shares.mean()), (0.0, 1.0)
    drawn = np.random.default_rng(0).choice(shares, size=(draws, len(shares))).mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(shares.mean()), (float(low), float(high))


def populations_table(title: str, traces: Sequence[Trace]) -> Table:
    """Return the scores of one candidate on each population."""
    rows = [_row(name, [trace for trace in traces if holds(trace)]) for name, holds in POPULATIONS.items()]
    header = (
        "runs",
        "negatives (repositories)",
        "warned",
        "by repository",
        "paged",
        "by repository",
        "events (repositories)",
        f"warned before, within {LEAD_ROWS} rows",
        "by repository",
        f"warned by +{WARN_SLACK}",
        "by repository",
        f"paged by +{PAGE_SLACK}",
        "by repository",
        f"first warned over {LEAD_ROWS} rows before",
    )
    return Table(title=title, header=header, rows=rows)


def _row(name: str, traces: Sequence[Trace]) -> list[str]:
    negatives = [trace for trace in traces if trace.truth.group is Group.BENIGN]
    events = [trace for trace in traces if trace.truth.group is Group.FAILURE]
    cells = [name, f"{len(negatives)} ({_repositories(negatives)})"]
    cells += _cells(negatives, lambda trace: len(trace.openings("warn")) > 0)
    cells += _cells(negatives, lambda trace: len(trace.openings("page")) > 0)
    cells.append(f"{len(events)} ({_repositories(events)})")
    cells += _cells(events, lambda trace: alarmed_within(trace, "warn", before=LEAD_ROWS, after=0))
    cells += _cells(events, lambda trace: alarmed_within(trace, "warn", before=LEAD_ROWS, after=WARN_SLACK))
    cells += _cells(events, lambda trace: alarmed_within(trace, "page", before=LEAD_ROWS, after=PAGE_SLACK))
    return [*cells, str(sum(_is_early(trace) for trace in events))]


def _is_early(trace: Trace) -> bool:
    """Return whether the first warning opened so long before the event that it may be unrelated to the event."""
    return alarmed_within(trace, "warn", before=None, after=-LEAD_ROWS - 1)


def _repositories(traces: Sequence[Trace]) -> int:
    return len({repository(trace.run) for trace in traces})


def _cells(traces: Sequence[Trace], holds: Callable[[Trace], bool]) -> list[str]:
    if not traces:
        return ["", ""]
    by: defaultdict[str, list[bool]] = defaultdict(list)
    for trace in traces:
        by[repository(trace.run)].append(holds(trace))
    count = sum(map(sum, by.values()))
    share, bounds = share_by_repository(by)
    exact = interval(clopper_pearson(count, len(traces)), digits=2)
    return [f"{count} {exact}", f"{percent(share)} {interval(bounds)}"]
