"""Counts what limits of retention would remove, without removing anything."""

from sqlalchemy import ColumnElement, Connection, func, select

from monitor_server.settings import Deadlines
from monitor_server.store.repositories.run_status import is_active_column
from monitor_server.store.tables import records, responses, runs, steps

__all__ = ["RetentionCounts"]


class RetentionCounts:
    """Counts runs and rows. What a run sends while it is counted may be counted or not."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def records(self, *, silent_since: float | None = None, kept_steps: int | None = None) -> tuple[int, int]:
        """Count the raw records of silent runs, or of all but the newest steps of every run."""
        has_body = (records.c.position > runs.c.records_thinned_to) & (records.c.position <= runs.c.position)
        if silent_since is not None:
            return self._count(records, has_body & (runs.c.last_seen < silent_since))
        is_old = (records.c.attempt < runs.c.last_attempt) | (records.c.step <= runs.c.last_step - (kept_steps or 0))
        return self._count(records, has_body & is_old)

    def responses(self, *, silent_since: float) -> tuple[int, int]:
        """Count the sampled responses of silent runs."""
        return self._count(responses, runs.c.last_seen < silent_since)

    def steps(self, *, silent_since: float, most: int) -> tuple[int, int]:
        """Count the silent runs that are not thinned, and at most how many steps each has beyond a number."""
        is_due = (runs.c.last_seen < silent_since) & (runs.c.steps_thinned_to <= runs.c.last_step)
        query = (
            select(func.count().label("number"))
            .select_from(steps.join(runs, runs.c.id == steps.c.run_id))
            .where(is_due, runs.c.deleted_at.is_(None))
            .group_by(steps.c.run_id)
        )
        numbers = [number for number in self._connection.execute(query).scalars() if number > most]
        return len(numbers), sum(number - most for number in numbers)

    def runs(self, *, silent_since: float, now: float, deadlines: Deadlines) -> tuple[int, int]:
        """Count silent runs whose trainer does not send, and their steps."""
        is_silent = (runs.c.last_seen < silent_since) & ~is_active_column(now, deadlines)
        here = is_silent & runs.c.deleted_at.is_(None)
        number = self._connection.execute(select(func.count()).select_from(runs).where(here)).scalar_one()
        return int(number), self._count(steps, here)[1]

    def _count(self, table: object, here: ColumnElement[bool]) -> tuple[int, int]:
        query = (
            select(func.count(runs.c.id.distinct()), func.count())
            .select_from(table.join(runs, runs.c.id == table.c.run_id))  # type: ignore[attr-defined]
            .where(here, runs.c.deleted_at.is_(None))
        )
        number, rows = self._connection.execute(query).one()
        return int(number), int(rows)
