"""Opens the database, migrates it to the schema of this version, and opens transactions.

It does not depend on the content of the database.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from sqlalchemy import URL, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from monitor_server.errors import DatabaseMigrated, DatabaseNewer, DatabaseUnusable, Unavailable
from monitor_server.store.address import read_address, shown_url
from monitor_server.store.faults import FaultCounts, concerns_statement, fault_of, fault_of_disk, opening_advice
from monitor_server.store.postgresql.connections import (
    postgres_options,
    prepare_postgres,
    require_own_sessions,
    require_suitable,
)
from monitor_server.store.postgresql.listen_notify import NotifyChannel
from monitor_server.store.postgresql.single_statement import is_under_way
from monitor_server.store.postgresql.standby_waits import explain_wait
from monitor_server.store.postgresql.unresponsive_server import UnresponsiveServer
from monitor_server.store.repositories import Repositories
from monitor_server.store.schema.opening import open_schema
from monitor_server.store.schema.version import require_own_schema
from monitor_server.store.sqlite.connections import (
    database_path,
    forbid_new_file,
    is_in_memory,
    make_private_file,
    prepare_sqlite,
    set_temporary_store,
)
from monitor_server.store.sqlite.database_file import DatabaseFile
from monitor_server.store.sqlite.write_ahead_log import LONGEST_BYTES, copy_log, shorten_log, used_bytes
from monitor_server.store.sqlite.write_turns import FairLock, TurnOverdueError
from monitor_server.text_safety.printable import one_line

__all__ = ["Store"]

# The same time that a statement of PostgreSQL may take.
TURN_LIMIT_SECONDS = 12.0
# Connections that stay open, one for each thread: 4 of requests, at most 32 of asyncio, and the collector's own.
READERS = 40


class Store:
    """The database of one collector."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._turns = FairLock(limit_seconds=TURN_LIMIT_SECONDS) if engine.dialect.name == "sqlite" else None
        # One snapshot for all statements, as on SQLite.
        self._reading = engine if self._turns else engine.execution_options(isolation_level="REPEATABLE READ")
        self._writing = engine.execution_options(rlvitals_write=True)
        path = database_path(engine)
        self._file = None if path is None else DatabaseFile(path, used_log_bytes=lambda: used_bytes(engine))
        self.faults = FaultCounts()
        self._silence = UnresponsiveServer(self._ask)

    @classmethod
    def open(cls, url: str) -> "Store":
        """Connect, create what is missing and migrate to this version.

        Raises:
            DatabaseNewer: If a newer rlvitals has migrated the database.
            DatabaseUnusable: If the database cannot be opened or written, or belongs to another program.
        """
        parsed = read_address(url)
        is_sqlite = parsed.get_backend_name() == "sqlite"
        if is_sqlite:
            _require_file(parsed)
        options = {} if is_sqlite else postgres_options(parsed)
        # The connection that was used last is taken first, because its pages and statements are still in its caches.
        engine = create_engine(parsed, pool_size=READERS, pool_use_lifo=True, **options)
        file = database_path(engine)
        if file is not None:
            make_private_file(file)
        if is_sqlite:
            prepare_sqlite(engine)
        else:
            prepare_postgres(engine)
        try:
            with engine.connect() as connection:
                set_temporary_store(connection, "FILE")  # an index of a large table is sorted there
                with connection.begin():
                    require_suitable(connection)
                require_own_sessions(connection)
                open_schema(connection, url)
                set_temporary_store(connection, "MEMORY")
        except DBAPIError as error:
            engine.dispose()
            wait = None if is_sqlite or fault_of(error) not in ("silent", "locked") else explain_wait(engine)
            reason = wait or f"{one_line(error.orig)}; {opening_advice(error, is_file=is_sqlite)}"
            raise DatabaseUnusable(f"the database {shown_url(url)} cannot be opened for writing: {reason}") from error
        except (DatabaseNewer, DatabaseUnusable):
            engine.dispose()
            raise
        if file is not None:
            forbid_new_file(engine, file)
        return cls(engine)

    @property
    def is_shared(self) -> bool:
        """Whether several collectors are meant to use the database at once."""
        return self._engine.dialect.name != "sqlite"

    @property
    def waiting_writes(self) -> int:
        """The number of threads that wait for their turn to write to a SQLite file; 0 on PostgreSQL."""
        return 0 if self._turns is None else self._turns.waiting

    @property
    def free_bytes(self) -> int | None:
        """The free bytes on the disk of the database; None if the database is on a server."""
        return None if self._file is None else self._file.free_bytes()

    @contextmanager
    def read(self) -> Iterator[Repositories]:
        """Open the repositories on one consistent snapshot.

        Raises:
            Unavailable: If the database does not answer, or its file is no longer the one that was opened.
        """
        self._require_answers()
        self._check(lambda file: file.check_presence())
        with self._noting("read", again="ask"), self._reading.begin() as connection:
            yield Repositories(connection)

    @contextmanager
    def write(self) -> Iterator[Repositories]:
        """Open the repositories in one transaction, which is committed at the end unless the block raises.

        Raises:
            DatabaseMigrated: If another version of rlvitals has migrated the database; nothing was stored.
            Unavailable: If the database cannot be written, or its file is no longer the one that was opened; nothing
                was stored.
        """
        self._require_answers()
        with self._noting("write", again="send"), self._turns or nullcontext():
            # This check comes before a connection is opened, which would create an empty file if there is none.
            self._check(lambda file: file.check_presence())
            with self._writing.begin() as connection:
                yield Repositories(connection)
                self._check(lambda file: file.check())
                if is_under_way(connection):
                    require_own_schema(connection)

    @contextmanager
    def read_if_connected(self) -> Iterator[Repositories]:
        """Read as `read`, for optional work: if the connection was just lost, this does not wait for it.

        Raises:
            Unavailable: As `read` does, or at once if another thread has just lost the connection.
        """
        if self.faults.is_lost or self._silence.is_lasting:
            raise Unavailable("the connection to the database is lost; ask again later")
        with self.read() as repositories:
            yield repositories

    def open_notifications(self, on_message: Callable[[str], None], on_gap: Callable[[], None]) -> NotifyChannel | None:
        """Return the exchange of messages between the collectors of this database; None on SQLite."""
        if not self.is_shared:
            return None
        return NotifyChannel(self._connect_driver, on_message=on_message, on_gap=on_gap)

    def probe(self) -> None:
        """Write to the database and read from it, in the same way as storing a batch.

        Raises:
            Unavailable: If it cannot be written or read; the message contains the reason.
        """
        with self.write() as repositories:
            repositories.probe()

    def shorten_log(self) -> None:
        """Shorten a long write-ahead log of SQLite, which may hold deleted data, unless a reader needs it.

        Raises:
            Unavailable: If it cannot be copied into the database.
        """
        if self._file is None or self._file.log_bytes() <= LONGEST_BYTES:
            return
        try:
            if copy_log(self._engine):  # the rest is short, and writers wait for readers alone
                with self._noting("write", again="send"), self._turns or nullcontext():
                    shorten_log(self._engine)
        except sqlite3.Error as error:
            raise Unavailable(f"the write-ahead log cannot be copied into the database: {error}") from error

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def _noting(self, work: str, *, again: str) -> Iterator[None]:
        """Note that the database has answered a transaction, or count the fault that has ended it.

        Raises:
            Unavailable: In place of the driver's error, if the fault concerns the database and not a statement.
        """
        try:
            yield
            self._note_answer()
        except DatabaseMigrated:
            self.faults.count("migrated")
            raise
        except (DBAPIError, PoolTimeoutError, TurnOverdueError) as error:
            if concerns_statement(error):
                raise
            raise Unavailable(f"the store cannot {work}: {self._note_fault(error)}; {again} again later") from error

    def _check(self, check: Callable[[DatabaseFile], None]) -> None:
        """Check the file, if the database is one."""
        if self._file is None:
            return
        try:
            check(self._file)
        except Unavailable:
            self.faults.count("removed")
            raise

    def _require_answers(self) -> None:
        """Refuse at once if the server has just failed to answer other requests."""
        try:
            self._silence.check()
        except Unavailable:
            self.faults.count("silent")
            raise

    def _ask(self) -> None:
        """Send the server a query, and note whether it has answered."""
        try:
            with self._engine.connect() as connection:
                connection.execute(text("SELECT 1"))
        except (DBAPIError, PoolTimeoutError) as error:
            self._note_fault(error)
        else:
            self._note_answer()

    def _note_answer(self) -> None:
        self.faults.end()
        self._silence.end()

    def _note_fault(self, error: DBAPIError | PoolTimeoutError | TurnOverdueError) -> str:
        """Count the fault of an error, and return the reason in words."""
        fault, reason = fault_of(error), one_line(getattr(error, "orig", error))
        if fault == "silent":
            self._silence.begin()  # now: the next question takes seconds where the server is silent
        if (
            fault in ("silent", "locked", "slow")
            and self.is_shared
            and (wait := explain_wait(self._engine)) is not None
        ):
            fault, reason = "standby", wait
        if fault == "disk" and self._file is not None and (cause := self._file.write_error()) is not None:
            fault, reason = fault_of_disk(cause), f"{reason} ({cause.strerror})"
        self.faults.count(fault)
        if fault != "silent":
            self._silence.end()
        return reason

    def _connect_driver(self) -> Any:  # noqa: ANN401 - psycopg is an extra
        """Return a connection of the driver itself, in autocommit mode, which may be idle. The caller closes it."""
        pooled = self._engine.raw_connection()
        connection: Any = pooled.driver_connection
        pooled.detach()
        connection.autocommit = True
        connection.execute("SET idle_session_timeout = 0")  # messages may come once a day
        return connection


def _require_file(url: URL) -> None:
    """Refuse a database in memory.

    Raises:
        DatabaseUnusable: If the address names no file.
    """
    if is_in_memory(url):
        raise DatabaseUnusable(
            f"RLVITALS_DATABASE_URL must name a file, such as sqlite:///rlvitals.db, got {shown_url(str(url))!r}, "
            "a database in memory"
        )
