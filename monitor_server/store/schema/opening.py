"""Migrates a database when it is opened, also while other collectors use it."""

import logging
import time
from typing import Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from monitor_server.errors import DatabaseNewer, DatabaseUnusable
from monitor_server.store.address import shown_url
from monitor_server.store.faults import fault_of
from monitor_server.store.installation import OUR_TABLE, POSTGRES_SCHEMA
from monitor_server.store.postgresql.advisory_locks import AdvisoryLock, wait_for_lock
from monitor_server.store.postgresql.connections import without_time_limit
from monitor_server.store.postgresql.table_locks import lock_tables, oldest_holder
from monitor_server.store.schema.columns import missing_columns, name_columns
from monitor_server.store.schema.version import newest_schema, schema_version
from monitor_server.store.tables import metadata
from monitor_server.text_safety.printable import one_line

__all__ = ["open_schema"]

logger = logging.getLogger(__name__)

LIMIT_SECONDS = 60.0
# PostgreSQL looks for a deadlock after 1 s: before that the migration gives way, and no writer.
FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 2.0
# A schema that was made later may precede that of our tables in the search path, and new tables would come into it.
JOIN_OUR_TABLES: Final = f"""
SELECT set_config('search_path', quote_ident(nspname) || ', ' || current_setting('search_path'), true)
FROM ({POSTGRES_SCHEMA}) AS ours"""  # noqa: S608 - our name
OTHER_INSTALLATIONS: Final = f"""
SELECT nspname FROM pg_namespace JOIN pg_class ON relnamespace = pg_namespace.oid
WHERE relname = '{OUR_TABLE}' AND relkind = 'r' ORDER BY nspname"""  # noqa: S608 - our name
PAUSE_SECONDS = 2.0  # those who waited behind the migration go on


def open_schema(connection: Connection, url: str) -> None:
    """Bring a database to the schema of this version, and check that it can be written.

    On PostgreSQL, a migration that does not get its tables is undone and tried again, for `LIMIT_SECONDS`.

    Raises:
        DatabaseNewer: If a newer rlvitals has migrated the database.
        DatabaseUnusable: If somebody else has used its tables for all that time, or a column is missing.
        DBAPIError: If it cannot be migrated or written.
    """
    connection = connection.execution_options(rlvitals_write=True)
    end, wait = time.monotonic() + LIMIT_SECONDS, FIRST_WAIT_SECONDS
    while True:
        try:
            with connection.begin():
                _migrate(connection, url, seconds=wait)
        except DBAPIError as error:
            if connection.dialect.name == "sqlite" or fault_of(error) not in ("locked", "slow"):
                raise
            with connection.begin():
                holder = oldest_holder(connection, metadata.tables)
            reason = one_line(error.orig)
            if time.monotonic() >= end:
                if holder is None:
                    raise
                raise DatabaseUnusable(
                    f"the database {shown_url(url)} must be without long transactions to be opened, and was not for "
                    f"{LIMIT_SECONDS:.0f} s: {holder}, uses it ({reason}); wait until that ends, as a backup or the "
                    "migration of another collector does, or end it, and start again"
                ) from error
        else:
            return
        logger.warning(
            "the start waits for the tables of the database, and is tried again for %.0f s at most: %s (%s)",
            max(0.0, end - time.monotonic()),
            reason,
            holder or "whoever held them has ended",
        )
        time.sleep(PAUSE_SECONDS)
        wait = min(2 * wait, LONGEST_WAIT_SECONDS)


def _migrate(connection: Connection, url: str, *, seconds: float) -> None:
    # Collectors that start at the same time migrate one after the other.
    wait_for_lock(connection, AdvisoryLock.MIGRATION)
    current = schema_version(connection)
    if current != newest_schema():
        from monitor_server.store.schema import migrating  # noqa: PLC0415 - most starts need no Alembic

        if current is not None and not migrating.is_known(current):
            raise DatabaseNewer(
                f"the database {shown_url(url)} was written by a newer rlvitals (its schema is {current}, this "
                f"version knows up to {newest_schema()}); upgrade rlvitals or set RLVITALS_DATABASE_URL to another "
                "database"
            )
        if connection.dialect.name == "postgresql":
            # All at once, before any work: a table that a migration asks for later could make a deadlock with a writer,
            # which would undo the work. Writers lock their run first, so with the runs they end before the rest.
            lock_tables(connection, sorted(metadata.tables, key=lambda name: (name != "runs", name)), seconds=seconds)
            if current is None:
                _name_others(connection)
            connection.execute(text(JOIN_OUR_TABLES))
        with without_time_limit(connection):
            migrating.migrate(connection)
    if missing := missing_columns(connection):
        raise DatabaseUnusable(
            f"the database {shown_url(url)} must have every column of the schema {newest_schema()}, and lacks "
            f"{name_columns(missing)}: a commit of rlvitals with other migrations made it, or somebody has removed "
            "them; nothing was changed: restore a backup that has them, or go on with the version that made it and set "
            "RLVITALS_DATABASE_URL of this one to a new database"
        )
    # SQLite opens a read-only file and begins a transaction without an error; only a write fails.
    connection.execute(text("UPDATE alembic_version SET version_num = version_num"))


def _name_others(connection: Connection) -> None:
    """Log the schemas with tables of rlvitals: who has restored one of them would not look for its runs in another."""
    if others := connection.execute(text(OTHER_INSTALLATIONS)).scalars().all():
        logger.warning(
            "a new installation without runs and keys begins in the schema %s of the database, which has the tables of "
            "rlvitals in %s; to use those, stop this collector and set search_path in RLVITALS_DATABASE_URL "
            "(docs/operations.md)",
            connection.execute(text("SELECT current_schema()")).scalar(),
            ", ".join(others),
        )
