"""Runs in the form for readers: with their status, their alerts and the beginning of their phase."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Float, Select, bindparam, func, select

from monitor_server.detection.protocol import MOST_SEVERE_FIRST
from monitor_server.settings import Deadlines
from monitor_server.store.repositories.removed_attempts import REMOVED
from monitor_server.store.repositories.row_fields import row_fields
from monitor_server.store.repositories.run_filter import RunFilter, Sorting, matching_runs, sort_keys
from monitor_server.store.repositories.run_order import RunOrder, worst_severity
from monitor_server.store.repositories.run_status import SILENT, is_live_column, status_column
from monitor_server.store.tables import alerts, attempts, phases, runs

__all__ = ["RunViews"]

# A configuration has up to 128 KB, and a list up to 1,000 runs.
_LONG = ("config", "notes")
_LISTED = [column for column in runs.c if column.name not in _LONG]
_ALERT = (alerts.c.run_id, alerts.c.id, alerts.c.kind, alerts.c.severity, alerts.c.summary, alerts.c.opened_at)


class RunViews:
    """Reads runs, and writes nothing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, run_id: str, *, now: float, deadlines: Deadlines) -> dict[str, Any] | None:
        """Return the run in the form for readers, or None."""
        return self._find(_view(now, deadlines), run_id)

    def find_detail(self, run_id: str, *, now: float, deadlines: Deadlines) -> dict[str, Any] | None:
        """Return the run as `find` does, with its configuration and its notes."""
        return self._find(_view(now, deadlines).add_columns(*(runs.c[name] for name in _LONG)), run_id)

    def statuses(
        self, *, now: float, deadlines: Deadlines, run_id: str | None = None, project: str | None = None
    ) -> dict[str, tuple[str, str]]:
        """Return name and status of a run, or of all runs of a project, by id."""
        query = select(runs.c.id, runs.c.name, status_column(now, deadlines)).where(runs.c.deleted_at.is_(None))
        if run_id is not None:
            query = query.where(runs.c.id == run_id)
        if project is not None:
            query = query.where(runs.c.project == project)
        return {id_: (name, status) for id_, name, status in self._connection.execute(query)}

    def page(
        self,
        wanted: RunFilter,
        sorting: Sequence[Sorting] = (),
        *,
        now: float,
        deadlines: Deadlines,
        limit: int,
        before: int | None = None,
        offset: int = 0,
        group_by: str | None = None,
    ) -> list[dict[str, Any]]:
        """Return runs in the form for readers; ties in the order are broken by the newest first.

        Args:
            wanted: Selects the runs.
            sorting: The order. Runs without a value are last in both directions.
            now: The time of the request.
            deadlines: They determine the status of a run.
            limit: The largest number of runs.
            before: Only runs whose number is lower.
            offset: The number of runs to skip.
            group_by: Keeps the runs of a group together, and the groups in the order of `RunGroups.page`.
        """
        order = RunOrder(now=now, deadlines=deadlines)
        keys = [] if group_by is None else _group_keys(order, group_by)
        for each in sorting:
            keys += sort_keys(order, each)
        # Only the numbers are sorted, because a row is a hundred times as long.
        query = self._matching(select(runs.c.number), wanted, order).order_by(*keys, runs.c.number.desc())
        if before is not None:
            query = query.where(runs.c.number < before)
        numbers = list(self._connection.execute(query.limit(limit).offset(offset)).scalars())
        return self.runs_by_number(numbers, now=now, deadlines=deadlines)

    def runs_by_number(self, numbers: Sequence[int], *, now: float, deadlines: Deadlines) -> list[dict[str, Any]]:
        """Return the runs with some numbers in the form for readers, in the order of the numbers."""
        rows = self._rows(_view(now, deadlines).where(runs.c.number.in_(numbers))) if numbers else []
        found = {row["number"]: row for row in rows}
        return [found[number] for number in numbers]

    def count(self, wanted: RunFilter, *, now: float, deadlines: Deadlines) -> int:
        """Return the number of matching runs."""
        query = self._matching(select(func.count()), wanted, RunOrder(now=now, deadlines=deadlines))
        return int(self._connection.execute(query).scalar_one())

    def live(self, *, now: float, deadlines: Deadlines, limit: int) -> list[dict[str, Any]]:
        """Return the runs that have not ended: by their most severe firing alert, then the last active first."""
        query = _view(now, deadlines).where(is_live_column(now, deadlines))
        query = query.order_by(worst_severity(), runs.c.last_seen.desc()).limit(limit)
        return [row_fields(row) for row in self._connection.execute(query).mappings()]

    def count_live(self, *, now: float, deadlines: Deadlines) -> int:
        """Return the number of runs that have not ended."""
        query = select(func.count()).select_from(runs)
        query = query.where(is_live_column(now, deadlines), runs.c.deleted_at.is_(None))
        return int(self._connection.execute(query).scalar_one())

    def ended_since(self, since: float, *, now: float, deadlines: Deadlines, limit: int) -> list[dict[str, Any]]:
        """Return the runs that their trainers ended, if they were heard or advanced after a time, in `live`'s order."""
        is_new = (runs.c.last_seen > since) | (runs.c.last_step_at > since)
        query = _view(now, deadlines).where(runs.c.ended.is_not(None), is_new)
        query = query.order_by(worst_severity(), runs.c.last_seen.desc()).limit(limit)
        return [row_fields(row) for row in self._connection.execute(query).mappings()]

    def changed_runs(self, *, now: float, deadlines: Deadlines, without_silent: bool = False) -> list[str]:
        """Return the unsettled runs whose status differs from the last announced one; some without the silent runs."""
        query = _changed_query(deadlines, without_silent=without_silent)
        return list(self._connection.execute(query, {"now": now}).scalars())

    def _find(self, view: Select[Any], run_id: str) -> dict[str, Any] | None:
        return next(iter(self._rows(view.where(runs.c.id == run_id))), None)

    def _matching(self, query: Select[Any], wanted: RunFilter, order: RunOrder) -> Select[Any]:
        return matching_runs(query, wanted, order, dialect=self._connection.dialect.name)

    def _rows(self, query: Select[Any]) -> list[dict[str, Any]]:
        """Return rows with their firing alerts as ``firing``, the most severe first and then the newest."""
        rows = [row_fields(row) for row in self._connection.execute(query).mappings()]
        by_run: dict[str, list[dict[str, Any]]] = {row["id"]: [] for row in rows}
        if rows:
            firing = select(*_ALERT).where(alerts.c.run_id.in_(by_run), alerts.c.state == "firing")
            firing = firing.order_by(alerts.c.opened_step.desc(), alerts.c.number)
            for alert in self._connection.execute(firing).mappings():
                by_run[alert["run_id"]].append(row_fields(alert))
        for row in rows:
            row["firing"] = sorted(by_run[row["id"]], key=lambda alert: MOST_SEVERE_FIRST.index(alert["severity"]))
        return rows


@cache
def _changed_query(deadlines: Deadlines, *, without_silent: bool) -> Select[Any]:
    """Build, once for a collector, the query of the runs whose status differs from the last announced one."""
    status = status_column(bindparam("now", type_=Float), deadlines)
    query = select(runs.c.id).where(~runs.c.is_settled, status != runs.c.announced, runs.c.deleted_at.is_(None))
    return query.where(status.not_in(SILENT)) if without_silent else query


def _group_keys(order: RunOrder, by: str) -> list[ColumnElement[Any]]:
    group = order.group(by)
    urgency = func.min(order.urgency).over(partition_by=group)
    newest = func.max(runs.c.number).over(partition_by=group)
    return [urgency, newest.desc()]


def _view(now: float, deadlines: Deadlines) -> Select[Any]:
    ordinal = (
        select(func.count())
        .where(attempts.c.run_id == runs.c.id, attempts.c.attempt <= runs.c.attempt, attempts.c.world_size != REMOVED)
        .scalar_subquery()
    )
    began = (
        select(func.max(phases.c.from_step))
        .where(phases.c.run_id == runs.c.id, phases.c.to_step.is_(None))
        .scalar_subquery()
    )
    shown = (status_column(now, deadlines).label("status"), ordinal.label("ordinal"), began.label("phase_from_step"))
    return select(*_LISTED, *shown).where(runs.c.deleted_at.is_(None))
