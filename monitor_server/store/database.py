"""Opens the database, brings it to this version's schema, and hands out transactions.

Knows nothing of what is stored. A write transaction is given to one thread at a time by its caller (`writer`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection as SqliteConnection

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from monitor_server.errors import DatabaseNewer, DatabaseUnusable, Unavailable
from monitor_server.store.repositories import Repositories

__all__ = ["Store"]

BUSY_TIMEOUT_SECONDS = 10.0
READERS = 40  # as many as the server has threads for requests
MIGRATIONS = Path(__file__).parent / "migrations"


class Store:
    """The database of one collector."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, url: str) -> "Store":
        """Connect, create what is missing and migrate to this version.

        Raises:
            DatabaseNewer: If a newer rlvitals has been there.
            DatabaseUnusable: If the database cannot be opened or written.
        """
        try:
            engine = create_engine(make_url(url), pool_size=READERS, pool_pre_ping=not url.startswith("sqlite"))
        except (ArgumentError, ImportError) as error:
            raise DatabaseUnusable(
                f"RLVITALS_DATABASE_URL must be a URL such as sqlite:///rlvitals.db, got {url!r}: {error}"
            ) from error
        if engine.dialect.name == "sqlite":
            _prepare_sqlite(engine)
        try:
            with engine.connect() as connection:
                _migrate(connection, url)
        except DBAPIError as error:
            engine.dispose()
            raise DatabaseUnusable(
                f"the database {url} cannot be opened for writing: {error.orig}; "
                "check that its folder exists and is writable, or set RLVITALS_DATABASE_URL"
            ) from error
        except DatabaseNewer:
            engine.dispose()
            raise
        return cls(engine)

    @contextmanager
    def read(self) -> Iterator[Repositories]:
        """Give the repositories on one consistent snapshot.

        Raises:
            Unavailable: If the database does not answer.
        """
        try:
            with self._engine.connect() as connection, connection.begin():
                yield Repositories(connection)
        except (OperationalError, PoolTimeoutError) as error:
            raise Unavailable(f"the store cannot read: {error}; ask again later") from error

    @contextmanager
    def write(self) -> Iterator[Repositories]:
        """Give the repositories in one transaction, committed at the end unless it raises."""
        with self._engine.connect().execution_options(rlvitals_write=True) as connection, connection.begin():
            yield Repositories(connection)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def _prepare_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def on_connect(connection: SqliteConnection, _: object) -> None:
        # The driver would begin transactions late and break savepoints; on_begin does it instead.
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT_SECONDS * 1000)}")
        connection.execute("PRAGMA journal_mode = WAL")
        # FULL, not NORMAL: in WAL mode NORMAL may lose acknowledged commits when the power fails.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        # IMMEDIATE takes the write lock at once, so that no transaction fails half way when upgrading its lock.
        writes = connection.get_execution_options().get("rlvitals_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _migrate(connection: Connection, url: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    connection = connection.execution_options(rlvitals_write=True)
    with connection.begin():
        current = MigrationContext.configure(connection).get_current_revision()
        known = {script.revision for script in scripts.walk_revisions()}
        if current is not None and current not in known:
            raise DatabaseNewer(
                f"the database {url} was written by a newer rlvitals (its schema is {current}, this version knows up "
                f"to {scripts.get_current_head()}); upgrade rlvitals or set RLVITALS_DATABASE_URL to another database"
            )
        if current != scripts.get_current_head():
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        # SQLite opens a file that it may only read without a word, and begins; nothing but a write tells.
        connection.execute(text("UPDATE alembic_version SET version_num = version_num"))
