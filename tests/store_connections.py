"""The connection on which a store's transaction runs, as SQLAlchemy announces it to whoever listens.

Repositories show no connection, because SQL belongs in the store. Tests of the store read and damage what is below.
"""

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import sqlalchemy

from monitor_server.store.database import Store
from monitor_server.store.tables import chunks

_newest = threading.local()


@sqlalchemy.event.listens_for(sqlalchemy.Engine, "begin")
def _note(connection: sqlalchemy.Connection) -> None:
    _newest.connection = weakref.ref(connection)


def current_connection() -> sqlalchemy.Connection:
    """Return the connection on which this thread began its newest transaction."""
    connection: sqlalchemy.Connection | None = _newest.connection()
    assert connection is not None, "the newest transaction of this thread must be under way"
    return connection


def count_chunks(run_id: str) -> int:
    """Return the number of compacted ranges of a run, in a transaction of this thread."""
    query = sqlalchemy.select(sqlalchemy.func.count()).where(chunks.c.run_id == run_id)
    return int(current_connection().execute(query).scalar_one())


def is_waiting_for_lock(store: Store) -> bool:
    """Return whether another transaction on a PostgreSQL database waits for a lock."""
    query = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with store.read():
        return current_connection().exec_driver_sql(query).first() is not None


def engine_of(store: Store) -> sqlalchemy.Engine:
    """Return the engine from which a store takes the connections of its readers."""
    with store.read():
        return current_connection().engine


@contextlib.contextmanager
def noted_statements() -> Iterator[list[tuple[str, Any]]]:
    """Yield a list to which each statement of this thread is added with its parameters, until the block ends."""
    noted: list[tuple[str, Any]] = []
    own_thread = threading.get_ident()

    def note(_connection: object, _cursor: object, statement: str, parameters: object, *_: object) -> None:
        if threading.get_ident() == own_thread:
            noted.append((statement, parameters))

    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", note)
    try:
        yield noted
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", note)


def query_plan(store: Store, statement: str, parameters: Any) -> list[str]:
    """Return the lines of SQLite's plan for a statement."""
    with store.read():
        rows = current_connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        return [row[3] for row in rows]
