"""Where the rows of a grouped table are: each group has a row that heads it, and its runs below while it is open."""

from collections.abc import Collection, Iterator, Sequence

from dashboard.api.types.runs import RunGroupItem
from dashboard.components.fleet.rows import group_key

__all__ = ["row_count", "rows_between"]


def row_count(groups: Sequence[RunGroupItem], closed: Collection[str]) -> int:
    """Return how many rows the table has."""
    return len(groups) + sum(group["runs"] for group in groups if group_key(group) not in closed)


def rows_between(
    groups: Sequence[RunGroupItem], closed: Collection[str], rows: range
) -> Iterator[RunGroupItem | range]:
    """Yield what some rows show.

    A group stands for the row that heads it. A range holds the places of runs in the list of all runs that the
    collector keeps together by group. Ranges that follow each other in that list may be read at once.
    """
    first, end = rows.start, rows.stop
    row = run = 0
    for group in groups:
        if first <= row < end:
            yield group
        row += 1
        if group_key(group) not in closed:
            shown = range(max(run, run + first - row), min(run + group["runs"], run + end - row))
            if shown:
                yield shown
            row += group["runs"]
        run += group["runs"]
        if row >= end:
            return
