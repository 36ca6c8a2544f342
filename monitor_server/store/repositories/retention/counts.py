"""Counts the data that limits of retention would remove, without removing it, within a time."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, false, func, or_, select, tuple_

from monitor_server.settings import Deadlines
from monitor_server.store.repositories.retention.newest_steps import first_of_newest
from monitor_server.store.repositories.run_status import is_active_column
from monitor_server.store.tables import records, responses, runs, steps
from monitor_server.store.time_limit import Deadline, OutOfTimeError

__all__ = ["Counted", "RetentionCounts"]

# Runs are counted in parts, so that there is a result when the time ends: first one, then twice as many each time.
MOST_RUNS: Final = 256


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of rows and of their runs; a lower bound if the time has ended."""

    runs: int = 0
    rows: int = 0
    is_complete: bool = True


class RetentionCounts:
    """Counts runs and rows. Data that a run sends during the count may be counted or not."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def records(
        self, deadline: Deadline, *, silent_since: float | None = None, kept_steps: int | None = None
    ) -> Counted:
        """Count the raw records of silent runs, or of all but the newest steps of every run."""
        here = (records.c.position > runs.c.records_thinned_to) & (records.c.position <= runs.c.position)
        numbers = _numbers(records, func.sum(records.c.record_count)).where(here)
        if kept_steps is None:
            return self._count(deadline, numbers, silent_since=silent_since)
        return self._count(
            deadline, numbers, silent_since=None, narrow=partial(self._before_newest, deadline, kept_steps)
        )

    def responses(self, deadline: Deadline, *, silent_since: float) -> Counted:
        """Count the sampled responses of silent runs."""
        return self._count(deadline, _numbers(responses), silent_since=silent_since)

    def steps(self, deadline: Deadline, *, silent_since: float, most: int, without: Collection[str] = ()) -> Counted:
        """Count the silent runs that are not thinned, and an upper bound of the steps that each has beyond a number."""
        is_due = (runs.c.steps_thinned_to <= runs.c.last_step) & runs.c.id.not_in(without)
        return self._count(deadline, _numbers(steps).where(is_due), silent_since=silent_since, most=most)

    def runs(
        self,
        deadline: Deadline,
        *,
        silent_since: float,
        now: float,
        deadlines: Deadlines,
        without: Collection[str] = (),
    ) -> Counted:
        """Count silent runs whose trainer does not send, and their steps."""
        here = ~is_active_column(now, deadlines) & runs.c.id.not_in(without)
        query = select(func.count()).select_from(runs).where(here, *_due(silent_since))
        try:
            with deadline.limits(self._connection):
                number = int(self._connection.execute(query).scalar_one())
        except OutOfTimeError:
            return Counted(is_complete=False)
        counted = self._count(deadline, _numbers(steps).where(here), silent_since=silent_since)
        return Counted(number, counted.rows, counted.is_complete)

    def _before_newest(self, deadline: Deadline, kept_steps: int, ids: Sequence[str]) -> ColumnElement[bool]:
        """Whether a record is older than the newest steps of its run, which is one of some runs."""
        found = {}
        for run_id in ids:
            with deadline.limits(self._connection):
                found[run_id] = first_of_newest(self._connection, run_id, kept_steps)
        step = tuple_(records.c.attempt, records.c.step)
        older = [(records.c.run_id == run_id) & (step < first) for run_id, first in found.items() if first is not None]
        return or_(false(), *older)

    def _count(
        self,
        deadline: Deadline,
        numbers: Select[Any],
        *,
        silent_since: float | None,
        most: int = 0,
        narrow: Callable[[Sequence[str]], ColumnElement[bool]] | None = None,
    ) -> Counted:
        """Count runs, and the rows of each run beyond a number, in the order of the ids of runs."""
        found, rows, last, size = 0, 0, "", 1
        try:
            while ids := self._read(deadline, _part(silent_since, last, size)):
                here = runs.c.id.in_(ids) if narrow is None else narrow(ids)
                some = self._read(deadline, numbers.where(here))
                beyond = [number - most for number in some if number > most]
                found, rows = found + len(beyond), rows + sum(beyond)
                last, size = ids[-1], min(2 * size, MOST_RUNS)
        except OutOfTimeError:
            return Counted(found, rows, is_complete=False)
        return Counted(found, rows)

    def _read(self, deadline: Deadline, query: Select[Any]) -> Sequence[Any]:
        with deadline.limits(self._connection):
            return self._connection.execute(query).scalars().all()


def _due(silent_since: float | None) -> tuple[ColumnElement[bool], ...]:
    is_here = runs.c.deleted_at.is_(None)
    return (is_here,) if silent_since is None else (is_here, runs.c.last_seen < silent_since)


def _part(silent_since: float | None, last: str, size: int) -> Select[Any]:
    return select(runs.c.id).where(*_due(silent_since), runs.c.id > last).order_by(runs.c.id).limit(size)


def _numbers(table: Any, number: ColumnElement[int] = func.count()) -> Select[Any]:  # noqa: ANN401, B008 - a table
    """Return the query for the number of rows of each run that has some, or for another number from its rows."""
    joined = table.join(runs, runs.c.id == table.c.run_id)
    return select(number).select_from(joined).group_by(runs.c.id)
