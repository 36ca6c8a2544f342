"""The state of an open database: its kind, versions, clock and size."""

from dataclasses import dataclass

from sqlalchemy import Connection, text

from monitor_server.store.postgresql.standby_waits import waiting_commits
from monitor_server.store.schema.version import schema_version

__all__ = ["DatabaseState", "read_clock", "read_state"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseState:
    """The facts about a database.

    Attributes:
        kind: ``sqlite`` or ``postgresql``.
        server_version: The version of the library or of the server, such as ``3.45.1``.
        schema_version: The newest migration of the database; None if it has none of our tables yet.
        clock: The server's clock in seconds since the epoch; None for SQLite, which uses this machine's.
        size_bytes: The size of all pages of the file, or of all tables and indexes.
        free_bytes: The free space beside the file; None if the database is on a server.
        waiting_commits: The number of commits that wait for a synchronous standby unusually long.
        missing_columns: The columns of our tables that the newest schema has and the database lacks; none if nobody has
            looked.
        judged_calibration: The calibration in the evidence of the detector's alert that was judged last; None if none
            was judged, or if nobody has looked.
    """

    kind: str
    server_version: str
    schema_version: str | None
    clock: float | None
    size_bytes: int
    free_bytes: int | None
    waiting_commits: int = 0
    missing_columns: tuple[str, ...] = ()
    judged_calibration: str | None = None


def read_clock(connection: Connection) -> float | None:
    """Return the server's clock in seconds since the epoch; None for SQLite, which uses this machine's."""
    if connection.dialect.name == "sqlite":
        return None
    return float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())


def read_state(connection: Connection, *, free_bytes: int | None) -> DatabaseState:
    """Read the state of a database; the caller passes the free space beside its file."""
    kind = connection.dialect.name
    if kind == "sqlite":
        version = connection.execute(text("SELECT sqlite_version()")).scalar_one()
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()
        size = pages * connection.execute(text("PRAGMA page_size")).scalar_one()
    else:
        version = connection.execute(text("SHOW server_version")).scalar_one()
        size = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
    return DatabaseState(
        kind=kind,
        server_version=str(version).partition(" ")[0],
        schema_version=schema_version(connection),
        clock=read_clock(connection),
        size_bytes=size,
        free_bytes=free_bytes,
        waiting_commits=waiting_commits(connection),
    )
