"""Reads the state of a database, which is neither created nor migrated by that."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, create_engine, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError

from monitor_server.errors import DatabaseUnusable
from monitor_server.store.database import POSTGRES_OPTIONS, migration_scripts, shown_url

__all__ = ["DatabaseState", "inspect_database", "newest_schema"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseState:
    """What can be said of a database without what is stored in it.

    Attributes:
        kind: ``sqlite`` or ``postgresql``.
        server_version: Of the library or of the server, such as ``3.45.1``.
        schema_version: The newest migration that it has had; None where none of our tables is there yet.
        clock: The server's clock in seconds since the epoch; None of SQLite, which has this machine's.
        size_bytes: Of the file, or of all tables and indexes.
        free_bytes: Free space beside the file; None where the database is a server's.
    """

    kind: str
    server_version: str
    schema_version: str | None
    clock: float | None
    size_bytes: int
    free_bytes: int | None


def inspect_database(url: str) -> DatabaseState | None:
    """Return the state of a database; None if there is no such file.

    Raises:
        DatabaseUnusable: If the URL is not valid, or the database does not answer or is none.
    """
    try:
        parsed = make_url(url)
        options: dict[str, Any] = {} if parsed.get_backend_name() == "sqlite" else POSTGRES_OPTIONS
        engine = create_engine(parsed, **options)
    except (ArgumentError, ImportError) as error:
        raise DatabaseUnusable(
            f"the database must be a URL such as sqlite:///rlvitals.db, got {shown_url(url)!r}: {error}"
        ) from error
    file = Path(parsed.database).absolute() if not options and parsed.database else None
    if file is not None and not file.exists():
        return None
    try:
        with engine.connect() as connection:
            return _read_state(connection, file)
    except DBAPIError as error:
        raise DatabaseUnusable(f"the database {shown_url(url)} cannot be read: {error.orig}") from error
    finally:
        engine.dispose()


def newest_schema() -> str:
    """Return the newest migration that this version of rlvitals knows."""
    return str(migration_scripts().get_current_head())


def _read_state(connection: Connection, file: Path | None) -> DatabaseState:
    kind = connection.dialect.name
    if kind == "sqlite":
        version, clock = connection.execute(text("SELECT sqlite_version()")).scalar_one(), None
        size = 0 if file is None else file.stat().st_size
    else:
        version = connection.execute(text("SHOW server_version")).scalar_one()
        clock = float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
        size = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
    return DatabaseState(
        kind=kind,
        server_version=str(version).partition(" ")[0],
        schema_version=MigrationContext.configure(connection).get_current_revision(),
        clock=clock,
        size_bytes=size,
        free_bytes=None if file is None else shutil.disk_usage(file.parent).free,
    )
