"""Runs in groups by a common value, and a table in which each group has a head above its runs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Select, case, func, or_, select

from monitor_server.detection.protocol import MOST_SEVERE_FIRST
from monitor_server.settings import Deadlines
from monitor_server.store.repositories.row_fields import row_fields
from monitor_server.store.repositories.run_filter import RunFilter, Sorting, matching_runs, sort_keys
from monitor_server.store.repositories.run_order import WORST_PHASES, RunOrder, firing_count
from monitor_server.store.repositories.run_views import RunViews
from monitor_server.store.tables import runs

__all__ = ["GroupedRow", "GroupedRows", "RunGroups"]

NO_NAME = ""  # for the runs without a value; no group has an empty name


@dataclass(frozen=True, slots=True)
class GroupedRow:
    """The head of a group, or a run."""

    group: dict[str, Any] | None = None
    run: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """Some rows of a table, the number of rows of the whole table, and the number of matching runs."""

    rows: Sequence[GroupedRow]
    row_count: int
    run_count: int


@dataclass(frozen=True, slots=True)
class _GroupPlace:
    """The place of a group's rows: its head, and its runs up to, but not including, ``end``."""

    name: str
    head: int
    end: int

    def runs_within(self, rows: range) -> range:
        """Return the runs of the group that some rows show, counted from its first."""
        first = self.head + 1
        return range(max(first, rows.start) - first, min(self.end, rows.stop) - first)


class RunGroups:
    """Reads runs by a common value, and writes nothing.

    A group has its ``name`` (None for the runs without a value), its number of ``runs``, the newest ``last_seen`` of
    its runs, the worst ``phase``, and the number of firing alerts of each severity.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def page(
        self, wanted: RunFilter, by: str, *, now: float, deadlines: Deadlines, limit: int, offset: int = 0
    ) -> list[dict[str, Any]]:
        """Return the groups of the matching runs, the group with the most urgent run first."""
        order = RunOrder(now=now, deadlines=deadlines)
        query = self._describe_groups(wanted, by, order)
        # Columns that change with each record are not used: a list that is read in parts would lose and repeat groups.
        query = query.order_by(func.min(order.urgency), func.max(runs.c.number).desc())
        return self._read(query.limit(limit).offset(offset))

    def rows(
        self,
        wanted: RunFilter,
        by: str,
        sorting: Sequence[Sorting] = (),
        *,
        now: float,
        deadlines: Deadlines,
        limit: int,
        offset: int = 0,
        closed: Collection[str] = (),
    ) -> GroupedRows:
        """Return rows of the table of all groups, in the order of `page`, with their runs below their heads.

        Only the groups of these rows are described, and only the runs of these rows are read.

        Args:
            wanted: Selects the runs.
            by: The column that the runs of a group share.
            sorting: The order within a group. Runs without a value are last in both directions.
            now: The time of the request.
            deadlines: They determine the status of a run.
            limit: The largest number of rows.
            offset: The number of rows to skip.
            closed: Names of groups whose runs have no rows; `NO_NAME` for the runs without a value.
        """
        order = RunOrder(now=now, deadlines=deadlines)
        rows = range(offset, offset + limit)
        places, row_count, run_count = self._places(wanted, by, order, rows=rows, closed=closed)
        headed = [place.name for place in places if place.head in rows]
        query = self._describe_groups(wanted, by, order).where(_name(order, by).in_(headed))
        heads = {group["name"] or NO_NAME: group for group in self._read(query)} if headed else {}
        opened = {place.name: shown for place in places if (shown := place.runs_within(rows))}
        numbers = self._numbers(wanted, by, order, sorting, opened)
        found = iter(RunViews(self._connection).runs_by_number(numbers, now=now, deadlines=deadlines))
        drawn: list[GroupedRow] = []
        for place in places:
            drawn += [GroupedRow(group=heads[place.name])] if place.head in rows else []
            drawn += [GroupedRow(run=next(found)) for _ in opened.get(place.name, ())]
        return GroupedRows(drawn, row_count, run_count)

    def _places(
        self, wanted: RunFilter, by: str, order: RunOrder, *, rows: range, closed: Collection[str]
    ) -> tuple[list[_GroupPlace], int, int]:
        """Return the places of the groups that some rows show, the number of rows, and the number of matching runs."""
        columns = (_name(order, by).label("name"), order.urgency.label("urgency"), runs.c.number)
        each = self._matching(select(*columns), wanted, order).subquery()
        count, keys = func.count(), (func.min(each.c.urgency), func.max(each.c.number).desc())
        size = case((each.c.name.in_(closed), 0), else_=count) + 1
        # PostgreSQL compares it with the rows of the largest cursor, whose numbers have more than 32 bits.
        end = func.sum(size, type_=BigInteger).over(order_by=keys, rows=(None, 0))
        totals = func.sum(size).over().label("row_count"), func.sum(count).over().label("run_count")
        placed = select(each.c.name, (end - size).label("head"), end.label("end"), *totals)
        place = placed.group_by(each.c.name).subquery()
        is_shown = (place.c.end > rows.start) & (place.c.head < rows.stop)
        # The last group has the totals if the requested rows begin after it.
        query = select(place).where(or_(is_shown, place.c.end == place.c.row_count)).order_by(place.c.head)
        found = self._connection.execute(query).all()
        if not found:
            return [], 0, 0
        places = [_GroupPlace(row.name, int(row.head), int(row.end)) for row in found]
        return places, int(found[-1].row_count), int(found[-1].run_count)

    def _numbers(
        self, wanted: RunFilter, by: str, order: RunOrder, sorting: Sequence[Sorting], opened: dict[str, range]
    ) -> list[int]:
        """Return the numbers of the shown runs of some groups, one group after the other."""
        if not opened:
            return []
        name = _name(order, by)
        keys: list[ColumnElement[Any]] = [case({name: at for at, name in enumerate(opened)}, value=name)]
        for one in sorting:
            keys += sort_keys(order, one)
        query = self._matching(select(runs.c.number), wanted, order).where(name.in_(opened))
        # Only the first group may begin before the rows, and only the last one may end after them.
        first = next(iter(opened.values())).start
        shown = query.order_by(*keys, runs.c.number.desc()).limit(sum(map(len, opened.values()))).offset(first)
        return list(self._connection.execute(shown).scalars())

    def _describe_groups(self, wanted: RunFilter, by: str, order: RunOrder) -> Select[Any]:
        name, worst = order.group(by), func.min(order.worst_phase).label("worst")
        counts = [func.sum(firing_count(severity)).label(severity) for severity in MOST_SEVERE_FIRST]
        newest = func.max(runs.c.last_seen).label("last_seen")
        columns = select(name.label("name"), func.count().label("runs"), newest, worst, *counts)
        return self._matching(columns, wanted, order).group_by(name)

    def _read(self, query: Select[Any]) -> list[dict[str, Any]]:
        rows = self._connection.execute(query).mappings()
        return [row_fields(row) | {"phase": WORST_PHASES[row["worst"]]} for row in rows]

    def _matching(self, query: Select[Any], wanted: RunFilter, order: RunOrder) -> Select[Any]:
        return matching_runs(query, wanted, order, dialect=self._connection.dialect.name)


def _name(order: RunOrder, by: str) -> ColumnElement[str]:
    return func.coalesce(order.group(by), NO_NAME)
