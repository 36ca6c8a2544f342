"""Removes whole runs, and the attempts that a reset has removed."""

from collections.abc import Collection
from typing import Final

from sqlalchemy import Connection, delete, select, update

from monitor_server.settings import Deadlines
from monitor_server.store.repositories.audit_log import AuditLog
from monitor_server.store.repositories.log.retention import LogRetention
from monitor_server.store.repositories.removed_attempts import REMOVED, removed_attempts
from monitor_server.store.repositories.retention.silent_runs import is_silent, remove_some
from monitor_server.store.repositories.rules import Rules
from monitor_server.store.repositories.run_status import is_active_column
from monitor_server.store.repositories.runs import lock_in_order
from monitor_server.store.repositories.silences import Silences
from monitor_server.store.statements import in_parts
from monitor_server.store.tables import (
    acknowledgements,
    actions,
    alerts,
    attempts,
    audit_entries,
    chunk_values,
    metadata,
    records,
    responses,
    rules,
    runs,
    steps,
    waiting,
)

__all__ = ["REMOVED_FROM", "Deletion"]

# The tables with data of a run; tables that refer to others come first.
_OF_A_RUN = [table for table in reversed(metadata.sorted_tables) if "run_id" in table.c]
# The tables from which rows are removed.
REMOVED_FROM: Final = (*(table.name for table in _OF_A_RUN), runs.name, audit_entries.name)


class Deletion:
    """Finds and removes the runs and attempts that a person, or a limit of age, has deleted."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._log = LogRetention(connection)

    def begin_deletion(self, run_ids: Collection[str], *, now: float) -> None:
        """Hide runs from all readers and writers; `remove_rows` then removes their rows."""
        for some in in_parts(sorted(run_ids)):
            here = runs.c.id.in_(some) & runs.c.deleted_at.is_(None)
            lock_in_order(self._connection, here)
            self._connection.execute(update(runs).where(here), {"deleted_at": now})

    def deleted_runs(self) -> list[str]:
        """Return the runs whose deletion has begun and is not finished."""
        return list(self._connection.execute(select(runs.c.id).where(runs.c.deleted_at.is_not(None))).scalars())

    def silent(
        self, *, since: float, now: float, deadlines: Deadlines, limit: int, without: Collection[str] = ()
    ) -> dict[str, str]:
        """Return the projects of some runs without a batch since a time whose trainer does not send, by their ids.

        None of them can send until the transaction ends; a run that is locked elsewhere is left out.
        """
        is_old = is_silent(since) & runs.c.id.not_in(without)
        query = select(runs.c.id, runs.c.project).where(is_old, ~is_active_column(now, deadlines))
        rows = self._connection.execute(query.limit(limit).with_for_update(skip_locked=True))
        return {run_id: project for run_id, project in rows}  # noqa: C416 - not pairs

    def remove_rows(self, run_id: str, *, limit: int) -> tuple[str, int] | None:
        """Remove rows of a run whose deletion has begun, and return their table and number; None once it is gone.

        Another collector may have removed the run meanwhile, and a trainer may have begun it again.
        """
        here = (runs.c.id == run_id) & runs.c.deleted_at.is_not(None)
        changed = Rules(self._connection)
        # A change of rules locks the revision first, and then the rules and their run.
        revision = changed.begin_change() if changed.exist_of_run(run_id) else None
        project = self._connection.execute(select(runs.c.project).where(here).with_for_update()).scalar()
        if project is None:
            return None
        for table in _OF_A_RUN:
            if table is alerts:
                Silences(self._connection).remove_of_alerts(run_id)
            is_log = table is records
            removed = (
                self._log.remove(run_id, limit=limit) if is_log else remove_some(self._connection, table, run_id, limit)
            )
            if removed:
                if table is rules:  # the new revision makes collectors drop their copies in memory
                    changed.commit_change(changed.begin_change() if revision is None else revision)
                return table.name, removed
        AuditLog(self._connection).forget_run(run_id)
        self._connection.execute(delete(runs).where(here))
        if self._connection.execute(select(runs.c.id).where(runs.c.project == project)).first() is None:
            AuditLog(self._connection).forget_project(project)
        return runs.name, 1

    def with_removed_attempts(self) -> list[str]:
        """Return the runs whose removed attempts still have stored rows."""
        query = select(attempts.c.run_id).where(attempts.c.world_size == REMOVED).distinct()
        return list(self._connection.execute(query).scalars())

    def remove_attempt_rows(self, run_id: str, *, limit: int) -> tuple[str, int] | None:
        """Remove rows of a run's removed attempts, and return their table and number; None once all are gone.

        The compacted values whose chunks the reset has removed come first. The run is locked meanwhile: a reset removes
        rows as well, after which a trainer may use the number of the attempt again.
        """
        locked = select(runs.c.compacted_to).where(runs.c.id == run_id).with_for_update()
        compacted_to = self._connection.execute(locked).scalar()
        attempt = self._connection.execute(removed_attempts(run_id).order_by(attempts.c.attempt).limit(1)).scalar()
        if attempt is None:
            return None
        removed = remove_some(self._connection, chunk_values, run_id, limit, chunk_values.c.first_step >= compacted_to)
        if removed:
            return chunk_values.name, removed
        removed = self._log.remove_attempt(run_id, attempt, limit=limit)
        if removed:
            return records.name, removed
        for table in (steps, responses, waiting, actions, acknowledgements):
            removed = remove_some(self._connection, table, run_id, limit, table.c.attempt == attempt)
            if removed:
                return table.name, removed
        here = (attempts.c.run_id == run_id) & (attempts.c.attempt == attempt)
        return attempts.name, self._connection.execute(delete(attempts).where(here)).rowcount
