"""Finds and locks the runs whose trainer has been silent, and removes some of their rows."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, delete, select, tuple_

from monitor_server.store.tables import runs

__all__ = ["is_silent", "lock_run", "remove_some"]


def is_silent(since: float) -> ColumnElement[bool]:
    """Return whether no batch of a run has arrived since a time, as an expression on the table of runs."""
    return (runs.c.last_seen < since) & runs.c.deleted_at.is_(None)


def lock_run(
    connection: Connection, query: Select[Any], run_id: str, *, silent_since: float | None = None
) -> Row[Any] | None:
    """Read and lock a run until the transaction ends; return None if it is locked elsewhere, or has sent."""
    here = query.where(runs.c.id == run_id, runs.c.deleted_at.is_(None))
    if silent_since is not None:
        here = here.where(is_silent(silent_since))
    return connection.execute(here.with_for_update(skip_locked=True)).first()


def remove_some(connection: Connection, table: Table, run_id: str, limit: int, *conditions: ColumnElement[bool]) -> int:
    """Remove at most ``limit`` rows of a run that fulfil the conditions, and return their number."""
    key = tuple_(*table.primary_key)
    some = select(*table.primary_key).where(table.c.run_id == run_id, *conditions).limit(limit)
    here = (table.c.run_id == run_id) & key.in_(some)
    return connection.execute(delete(table).where(here)).rowcount
