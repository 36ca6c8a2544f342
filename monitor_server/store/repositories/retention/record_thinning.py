"""Removes the bodies of old raw records."""

from collections.abc import Sequence

from sqlalchemy import Connection, func, or_, select, update

from monitor_server.store.repositories.log.retention import LogRetention
from monitor_server.store.repositories.removed_attempts import kept_attempts
from monitor_server.store.repositories.retention.newest_steps import first_of_newest
from monitor_server.store.repositories.retention.silent_runs import is_silent, lock_run
from monitor_server.store.tables import attempts, records, runs

__all__ = ["RecordThinning"]


class RecordThinning:
    """Finds and thins the runs whose raw records are old, or more than are kept."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._log = LogRetention(connection)

    def with_records(self, *, silent_since: float) -> list[str]:
        """Return the silent runs that have raw records which are projected."""
        query = select(runs.c.id).where(is_silent(silent_since), runs.c.records_thinned_to < runs.c.position)
        return list(self._connection.execute(query).scalars())

    def with_more_steps(self, kept: int) -> list[str]:
        """Return the runs that may have raw records of more than their newest ``kept`` steps.

        A run is left out until its projector has written again since the last thinning with this number.
        """
        earlier = kept_attempts(runs.c.id).where(attempts.c.attempt < runs.c.last_attempt)
        query = select(runs.c.id).where(
            runs.c.deleted_at.is_(None),
            or_(runs.c.last_step >= kept, earlier.exists()),
            or_(
                runs.c.records_kept_steps.is_distinct_from(kept),
                runs.c.records_thinned_at.is_distinct_from(runs.c.revision),
            ),
            runs.c.records_thinned_to < runs.c.position,
        )
        return list(self._connection.execute(query).scalars())

    def has_thinned_records(self, run_id: str) -> bool:
        """Return whether raw records of a run have been removed, the first of which always are."""
        first = select(func.length(records.c.body)).where(records.c.run_id == run_id).order_by(records.c.position)
        return self._connection.execute(first.limit(1)).scalar() == 0

    def thin_records(
        self, run_id: str, *, kept_steps: int, limit: int, silent_since: float | None = None
    ) -> tuple[int, bool]:
        """Remove the bodies of the first records that still have one; return their number, and whether there are more.

        A block of records keeps its row, which is needed to recognise a record that is sent again. A block is left
        alone if one of its steps is not projected, or waits for more ranks.

        Args:
            run_id: The run.
            kept_steps: The newest steps whose records are kept. All records after the first block with such a step, and
                after the beginning of a later attempt, are kept as well.
            limit: The largest number of records, unless one block has more.
            silent_since: Nothing is removed if a batch has arrived since then.
        """
        query = select(runs.c.records_thinned_to, runs.c.position, runs.c.revision)
        row = lock_run(self._connection, query, run_id, silent_since=silent_since)
        if row is None:
            return 0, False
        target = row.position
        if kept_steps:
            first_kept = first_of_newest(self._connection, run_id, kept_steps)
            if first_kept is None:
                target = 0
            else:
                before = self._log.position_of(run_id, *first_kept) - 1
                target = min(target, before, *self._beginnings(run_id, first_kept[0]))
        removed, end, has_more = self._log.thin(run_id, after=row.records_thinned_to, up_to=target, limit=limit)
        thinned = {"records_thinned_to": max(end, row.records_thinned_to)}
        if kept_steps and not has_more:
            thinned |= {"records_kept_steps": kept_steps, "records_thinned_at": row.revision}
        self._connection.execute(update(runs).where(runs.c.id == run_id), thinned)
        return removed, has_more

    def _beginnings(self, run_id: str, attempt: int) -> Sequence[int]:
        """Return the positions of the log at which later attempts than one began, as far as they are known."""
        later = (attempts.c.run_id == run_id) & (attempts.c.attempt > attempt) & (attempts.c.position > 0)
        return self._connection.execute(select(attempts.c.position).where(later)).scalars().all()
