"""Suite C weighed by repository: a repository with 70 runs counts as much as one with a single run.

A share by repository is the mean over repositories of the share of its runs. Its interval comes from drawing
repositories with replacement, because runs of one repository are alike. There is none for fewer than five repositories,
nor for shares that are all equal, of which every draw has the same mean. The interval of a plain count is exact.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection.results_page.tables import Table, interval, percent
from benchmarks.detection.runs import Group
from benchmarks.detection.scoring.intervals import clopper_pearson
from benchmarks.detection.scoring.traces import Trace
from benchmarks.detection.suites.real_logs.events import LEAD_ROWS, PAGE_SLACK, WARN_SLACK, alarmed_within

__all__ = ["POPULATIONS", "SHORT_ROWS", "populations_table", "repository", "share_by_repository", "share_with_interval"]

SHORT_ROWS = 60
DRAWS = 10_000
LEAST_REPOSITORIES = 5

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


def share_by_repository(found: Mapping[str, Sequence[bool]]) -> float:
    """Return the mean over repositories of the share that is true.

    >>> share_by_repository({"a": [True, True, True, True], "b": [False]})
    0.5
    """
    shares = _shares(found)
    return float(shares.mean()) if len(shares) else 0.0


def share_with_interval(found: Mapping[str, Sequence[bool]], *, digits: int = 3) -> str:
    """Write the share by repository with its 95 % interval over drawn repositories, or – if the draws tell none.

    >>> share_with_interval({"a": [True], "b": [True]})
    '100.0 % –'
    """
    shares = _shares(found)
    bounds = "–"
    if len(shares) >= LEAST_REPOSITORIES and len(set(shares)) > 1:
        drawn = np.random.default_rng(0).choice(shares, size=(DRAWS, len(shares))).mean(axis=1)
        low, high = np.quantile(drawn, [0.025, 0.975])
        bounds = interval((float(low), float(high)), digits=digits)
    return f"{percent(share_by_repository(found))} {bounds}"


def _shares(found: Mapping[str, Sequence[bool]]) -> NDArray[np.float64]:
    return np.array([sum(values) / len(values) for values in found.values()])


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
    exact = interval(clopper_pearson(count, len(traces)), digits=2)
    return [f"{count} {exact}", share_with_interval(by)]
