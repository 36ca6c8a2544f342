"""Lists of runs: sorted, filtered and grouped by the store."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from monitor_server.access.cursors import hide
from monitor_server.api.dependencies import Collector, Reading, Serving
from monitor_server.api.pagination import Cursor, ItemList, PageLimit
from monitor_server.api.run_parameters import Closed, GroupedBy, Offset, Sort, Wanted
from monitor_server.api.schemas import RunGroupItem, RunItem, RunRow, group_item, row_item, run_item
from monitor_server.errors import InvalidField

__all__ = ["router"]

router = APIRouter(prefix="/runs")


class RunList(ItemList[RunItem]):
    """One part of a list of runs."""

    total: int | None = Field(default=None, description="Number of runs that match; null if the request has a cursor")


class RunRowList(ItemList[RunRow]):
    """One part of a table of runs in groups."""

    rows: int = Field(description="Number of rows of the whole table")
    total: int = Field(description="Number of runs that match")


@router.get("")
def runs(
    *,
    collector: Serving,
    reading: Reading,
    wanted: Wanted,
    sort: Sort,
    cursor: Cursor,
    group_by: Annotated[
        GroupedBy | None,
        Query(description="Lists the runs of a group together, the groups in the order of `GET /runs/groups`"),
    ] = None,
    offset: Offset = 0,
    limit: PageLimit = 100,
) -> RunList:
    """List the runs that the key may access, in the order of `sort`, or the newest first.

    Runs without a value are last in both directions. A list in another order than the newest first is read in its
    current state at each request, so a run may be in two parts of it.
    """
    _check_beginning(cursor, offset)
    if wanted is None:
        return RunList(items=[], total=0)
    is_ordered = bool(sort) or group_by is not None
    first = cursor if is_ordered and cursor is not None else offset
    read = _moment(collector)
    rows = reading.run_views.page(
        wanted,
        sort,
        limit=limit + 1,
        before=None if is_ordered else cursor,
        offset=first,
        group_by=group_by,
        **read,
    )
    following = None
    if len(rows) > limit:
        following = str(hide(first + limit if is_ordered else rows[limit - 1]["number"]))
    total = None if cursor is not None else reading.run_views.count(wanted, **read)
    return RunList(items=[run_item(row) for row in rows[:limit]], next=following, total=total)


@router.get("/groups")
def groups(
    *,
    collector: Serving,
    reading: Reading,
    wanted: Wanted,
    by: GroupedBy,
    cursor: Cursor,
    limit: PageLimit = 100,
) -> ItemList[RunGroupItem]:
    """Count the runs that the key may access in groups by a common value; the group of the most urgent run is first.

    Each run is in one group. `tag` is its first tag in alphabetical order, `owner` its tag `owner:NAME`, and `setting`
    its name without the seed.
    """
    if wanted is None:
        return ItemList(items=[])
    first = cursor or 0
    rows = reading.run_groups.page(wanted, by, limit=limit + 1, offset=first, **_moment(collector))
    following = str(hide(first + limit)) if len(rows) > limit else None
    return ItemList(items=[group_item(row) for row in rows[:limit]], next=following)


@router.get("/rows")
def rows(
    *,
    collector: Serving,
    reading: Reading,
    wanted: Wanted,
    sort: Sort,
    group_by: GroupedBy,
    closed: Closed,
    cursor: Cursor,
    offset: Offset = 0,
    limit: PageLimit = 100,
) -> RunRowList:
    """List the rows of a table of runs in groups: the head of each group, then its runs in the order of `sort`.

    The groups have the order of `GET /runs/groups`. An answer shows one state of the store, so each run is below the
    head of its own group.
    """
    _check_beginning(cursor, offset)
    if wanted is None:
        return RunRowList(items=[], rows=0, total=0)
    first = offset if cursor is None else cursor
    read = reading.run_groups.rows(
        wanted, group_by, sort, limit=limit, offset=first, closed=closed, **_moment(collector)
    )
    items = [row_item(row.group, row.run) for row in read.rows]
    following = str(hide(first + limit)) if first + limit < read.row_count else None
    return RunRowList(items=items, next=following, rows=read.row_count, total=read.run_count)


def _check_beginning(cursor: int | None, offset: int) -> None:
    if cursor is not None and offset:
        raise InvalidField(
            "query.offset: cannot be given with a cursor, which states where the list continues; leave one out"
        )


def _moment(collector: Collector) -> dict[str, Any]:
    return {"now": collector.clock(), "deadlines": collector.settings.deadlines}
