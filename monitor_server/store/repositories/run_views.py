"""Runs as readers see them: with their status, their alerts and the beginning of their phase."""

from functools import cache
from typing import Any

from sqlalchemy import Connection, Float, Select, bindparam, func, select

from monitor_server.settings import Deadlines
from monitor_server.store.repositories.removed_attempts import REMOVED
from monitor_server.store.repositories.row_fields import row_fields
from monitor_server.store.repositories.run_status import is_live_column, status_column
from monitor_server.store.tables import alerts, attempts, phases, runs

__all__ = ["RunViews"]


class RunViews:
    """Reads runs, and writes nothing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, run_id: str, *, now: float, deadlines: Deadlines) -> dict[str, Any] | None:
        """Return the run as readers see it, or None."""
        query = _view(now, deadlines).where(runs.c.id == run_id)
        row = self._connection.execute(query).mappings().one_or_none()
        return None if row is None else row_fields(row)

    def page(
        self,
        *,
        now: float,
        deadlines: Deadlines,
        limit: int,
        before: int | None = None,
        project: str | None = None,
        status: str | None = None,
        is_archived: bool | None = None,
    ) -> list[dict[str, Any]]:
        """Return runs as readers see them, the newest first, before the one numbered ``before``."""
        query = _view(now, deadlines).order_by(runs.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(runs.c.number < before)
        if project is not None:
            query = query.where(runs.c.project == project)
        if status is not None:
            query = query.where(status_column(now, deadlines) == status)
        if is_archived is not None:
            query = query.where(runs.c.archived_at.is_not(None) == is_archived)
        return [row_fields(row) for row in self._connection.execute(query).mappings()]

    def live(self, *, now: float, deadlines: Deadlines, limit: int) -> list[dict[str, Any]]:
        """Return the runs that have not ended, the last heard first."""
        query = (
            _view(now, deadlines).where(is_live_column(now, deadlines)).order_by(runs.c.last_seen.desc()).limit(limit)
        )
        return [row_fields(row) for row in self._connection.execute(query).mappings()]

    def changed(self, *, now: float, deadlines: Deadlines) -> list[str]:
        """Return the runs whose status is not the one last announced."""
        return list(self._connection.execute(_changed(deadlines), {"now": now}).scalars())


@cache
def _changed(deadlines: Deadlines) -> Select[Any]:
    """Build once for a collector the query of the runs whose status is not the one last announced."""
    status = status_column(bindparam("now", type_=Float), deadlines)
    return select(runs.c.id).where(status != runs.c.announced, runs.c.deleted_at.is_(None))


def _view(now: float, deadlines: Deadlines) -> Select[Any]:
    firing = select(func.count()).where(alerts.c.run_id == runs.c.id, alerts.c.state == "firing").scalar_subquery()
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
    shown = (status_column(now, deadlines).label("status"), firing.label("firing"), ordinal.label("ordinal"))
    return select(runs, *shown, began.label("phase_from_step")).where(runs.c.deleted_at.is_(None))
