"""Real faults of real databases are distinguished and counted."""

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import sqlalchemy

from monitor_server.errors import Unavailable
from monitor_server.store import database
from monitor_server.store.faults import LOST_SECONDS, FaultCounts, concerns_statement, fault_of
from monitor_server.store.sqlite import connections
from tests.databases import sqlite_only
from tests.full_disk import disk_of
from tests.live import eventually
from tests.monitor_server.store.store_faults import counted
from tests.namespaces import can_have_own
from tests.store_connections import current_connection, engine_of

PAGE_BYTES = 4_096
WRITE = "UPDATE alembic_version SET version_num = version_num"


def _execute(store, *statements):
    with store.write():
        for each in statements:
            current_connection().exec_driver_sql(each)


@sqlite_only
def test_each_fault_of_a_file_has_its_name(store, monkeypatch):
    """Locked by another process, full, read-only, and removed."""
    engine = engine_of(store)
    path = engine.url.database
    monkeypatch.setattr(connections, "BUSY_TIMEOUT_SECONDS", 0.0)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        engine.dispose()  # the time to wait is set when a connection is made
        with pytest.raises(Unavailable, match="locked"):
            _execute(store)
    assert counted(store) == {"locked": 1}

    @sqlalchemy.event.listens_for(engine, "begin")
    def limit(connection):  # of pages: as a disk that has no room for one more
        connection.exec_driver_sql("PRAGMA max_page_count = 1")

    with pytest.raises(Unavailable, match="full"):
        _execute(store, "CREATE TABLE more AS SELECT zeroblob(100000) AS held")
    sqlalchemy.event.remove(engine, "begin", limit)

    with pytest.raises(Unavailable, match="readonly"):
        _execute(store, "PRAGMA query_only = ON", WRITE)
    engine.dispose()
    Path(path).rename(f"{path}.away")
    with pytest.raises(Unavailable, match="removed or replaced"), store.read():
        pass
    assert counted(store) == {"locked": 1, "full": 1, "read_only": 1, "removed": 1}


@sqlite_only
def test_a_disk_that_fails_is_said_in_the_words_of_the_system(store):
    """No file can grow, for which SQLite has no name: it reports every such fault as a disk I/O error."""
    with disk_of(0), pytest.raises(Unavailable, match=r"cannot write: disk I/O error \(File too large\)"):
        _execute(store, WRITE)
    assert counted(store) == {"disk": 1}


READ_ONLY_DISK = """
import resource, subprocess, sys
from monitor_server.errors import Unavailable
from monitor_server.store.database import Store
folder = sys.argv[1]
store = Store.open(f"sqlite:///{folder}/rlvitals.db")
# Nobody can make a disk read-only while a file on it is open for writing, but its driver, after an error.
subprocess.run(["mount", "--bind", folder, folder], check=True)
subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    store.probe()
except Unavailable as error:
    print(error, store.faults.counts()["read_only"])
"""


@pytest.mark.skipif(not can_have_own("-rm"), reason="a file system of our own needs user namespaces")
def test_a_disk_that_has_become_read_only_is_called_that(tmp_path):
    """A disk that fails is mounted read-only by many systems, beneath a collector that has its files open."""
    command = ["unshare", "-rm", sys.executable, "-c", READ_ONLY_DISK, str(tmp_path)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    assert answer.stdout.endswith("disk I/O error (Read-only file system); send again later 1\n")


def test_each_fault_of_a_server_has_its_name(migrated_postgres):
    """Read-only, a lock, a statement that takes too long, a bad disk, no right, no table or column, no connection."""
    url = migrated_postgres()
    store = database.Store.open(url)
    statements = {
        "denied": ["SET LOCAL ROLE pg_monitor", WRITE],
        "schema": ["SELECT absent FROM chunks"],
        "read_only": ["SET TRANSACTION READ ONLY", WRITE],
        "slow": ["SET LOCAL statement_timeout = 100", "SELECT pg_sleep(60)"],
        "full": ["DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '53100'; END $$"],
        "disk": ["DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '58030'; END $$"],
        "locked": ["SET LOCAL lock_timeout = 1", "LOCK TABLE runs"],
        "connection": ["SELECT pg_terminate_backend(pg_backend_pid())"],
    }
    with contextlib.closing(store), psycopg.connect(url.replace("+psycopg", "")) as other:
        other.execute("LOCK TABLE runs")
        for fault, statement in statements.items():
            with pytest.raises(Unavailable):
                _execute(store, *statement)
            assert counted(store).get(fault) == 1, fault
    assert counted(store) == dict.fromkeys(statements, 1)


@pytest.mark.parametrize("transaction", [database.Store.read, database.Store.write])
def test_a_transaction_that_the_server_ended_because_nothing_came_is_a_lost_connection(transaction, migrated_postgres):
    """A collector that was paused for longer than the server waits for its next statement."""
    url = migrated_postgres()
    store = database.Store.open(url)

    def wait_too_long(repositories):
        current_connection().exec_driver_sql("SET idle_in_transaction_session_timeout = 1")
        process = current_connection().connection.driver_connection.info.backend_pid
        shown = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as other:
            eventually(lambda: not other.execute(shown, [process]).fetchall())
        repositories.runs.exists("r")

    with contextlib.closing(store):
        with pytest.raises(Unavailable), transaction(store) as repositories:
            wait_too_long(repositories)
        assert counted(store) == {"connection": 1}


@sqlite_only
@pytest.mark.parametrize("transaction", [database.Store.read, database.Store.write])
def test_a_damaged_file_is_unavailable(transaction, store):
    """The answer of a reader was 500, without the reason."""
    engine = engine_of(store)
    engine.dispose()
    path = Path(engine.url.database)
    with path.open("r+b") as file:
        file.seek(PAGE_BYTES)
        file.write(b"\xff" * (path.stat().st_size - PAGE_BYTES))
    with pytest.raises(Unavailable, match="malformed"), transaction(store) as repositories:
        repositories.runs.exists("r")


def test_a_connection_that_was_lost_is_not_waited_for_by_who_can_do_without(store):
    """The metrics do without it, because a hanging server would hold each of their reads for ten seconds.

    An answer of the server ends this state.
    """
    with store.read_if_connected() as repositories:
        repositories.runs.exists("r")
    store.faults.count("locked")
    with store.read_if_connected():
        pass
    store.faults.count("connection")
    with pytest.raises(Unavailable, match="is lost"), store.read_if_connected():
        pass
    with store.write() as repositories:
        repositories.probe()
    with store.read_if_connected():
        pass


def test_a_lost_connection_is_tried_again_after_a_while():
    """This also happens where no other caller has tried it."""
    seconds = [0.0]
    faults = FaultCounts(monotonic=lambda: seconds[0])
    faults.count("connection")
    assert faults.is_lost
    seconds[0] = LOST_SECONDS
    assert not faults.is_lost


def test_a_connection_that_does_not_become_free_is_a_slow_database():
    """All are in use, and none comes back."""
    assert fault_of(sqlalchemy.exc.TimeoutError()) == "slow"


def test_a_statement_that_a_pooler_has_lost_is_no_error_of_its_data():
    """A run would be put into quarantine for it. What the driver itself refuses, such as a NUL, is of the data."""
    lost, refused = psycopg.errors.InvalidSqlStatementName(), psycopg.DataError()
    assert not concerns_statement(sqlalchemy.exc.ProgrammingError("", {}, lost))
    assert concerns_statement(sqlalchemy.exc.DataError("", {}, refused))
