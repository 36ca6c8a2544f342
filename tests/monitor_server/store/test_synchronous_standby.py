"""A PostgreSQL server whose synchronous standby is down: it answers every query, and ends no commit."""

import contextlib

import psycopg
import pytest
from sqlalchemy import text

from monitor_server.commands.doctor.database_findings import check_database
from monitor_server.errors import DatabaseUnusable, Unavailable
from monitor_server.store.database import Store
from monitor_server.store.postgresql import standby_waits
from monitor_server.store.postgresql.bounded_connection import BoundedConnection
from tests.live import eventually
from tests.monitor_server.store.store_faults import counted, writes
from tests.postgres import create_database
from tests.store_connections import current_connection

NAMED = "start the standby again, or take it out of synchronous_standby_names"


@pytest.fixture
def impatient(monkeypatch):
    """Wait less than in life."""
    monkeypatch.setattr(BoundedConnection, "answer_seconds", 0.5)
    monkeypatch.setattr(standby_waits, "USUAL_SECONDS", 0.1)


@contextlib.contextmanager
def _without_standby(server):
    """Let every commit of the block wait for a standby that is not there; afterwards they end."""
    _name_standby(server, "nobody")
    try:
        eventually(lambda: _holds_a_commit(server))
        yield
    finally:
        _name_standby(server, "")


def _holds_a_commit(server):
    """Whether a commit waits: a process of the server decides that, some time after it was told the name."""
    with _connect(server) as connection, _connect(server) as other:
        connection.pgconn.send_query(b"SELECT pg_logical_emit_message(true, 'a', 'a')")
        process = [connection.info.backend_pid]
        shown = "SELECT wait_event FROM pg_stat_activity WHERE pid = %s"
        return eventually(lambda: other.execute(shown, process).fetchall()[0][0]) == "SyncRep"


def _connect(server):
    address = f"{server.url}/postgres".replace("+psycopg", "")
    return contextlib.closing(psycopg.connect(address, autocommit=True))


def _name_standby(server, name):
    with _connect(server) as connection:
        connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")

        def is_loaded():
            connection.execute("SELECT pg_reload_conf()")
            return connection.execute("SHOW synchronous_standby_names").fetchone() == (name,)

        eventually(is_loaded)


def _insert(store):
    with store.write():
        current_connection().execute(text("INSERT INTO lasting VALUES (1)"))


def _probe_for_a_moment(store):
    with store.write() as repositories:
        repositories.limit_lock_waits(60.0)
        current_connection().execute(text("SET LOCAL statement_timeout = 200"))
        repositories.probe()


def _count(store):
    with store.read():
        return current_connection().execute(text("SELECT count(*) FROM lasting")).scalar_one()


@pytest.fixture
def url(server):
    """A migrated database on which a statement waits for a lock for a fifth of a second."""
    url = create_database(server.url)
    with contextlib.closing(Store.open(url)) as store, store.write():
        current_connection().execute(text("CREATE TABLE lasting (value integer)"))
    return f"{url}?options=-c%20lock_timeout%3D200"


@pytest.mark.usefixtures("impatient")
def test_a_commit_that_waits_for_a_standby_is_refused_with_that_reason_and_readers_go_on(server, url):
    """The server was called silent, so that readers were refused as well."""
    with contextlib.closing(Store.open(url)) as store:
        with _without_standby(server):
            with pytest.raises(Unavailable, match=NAMED):
                _insert(store)
            assert _count(store) == 0
            with pytest.raises(Unavailable, match=NAMED):
                store.probe()
            with pytest.raises(Unavailable, match=NAMED):  # it waits for the lock of the first
                store.probe()
            with pytest.raises(Unavailable, match=NAMED):  # likewise, and the statement takes too long before that
                _probe_for_a_moment(store)
            assert counted(store) == {"standby": 4}
        eventually(lambda: _count(store) == 1)
        eventually(lambda: writes(store))


@pytest.mark.usefixtures("impatient")
def test_a_start_without_the_standby_and_the_doctor_name_it(server, url):
    """The advice was to check whether the server runs, and the doctor found no problem."""
    with _without_standby(server):
        with pytest.raises(DatabaseUnusable, match=NAMED):
            Store.open(url)
        problems = [each for each in check_database(url) if each.level == "problem"]
        assert [each.about for each in problems] == ["database"]
        assert "synchronous standby" in problems[0].text
        assert NAMED in problems[0].advice
    eventually(lambda: all(each.level == "ok" for each in check_database(url)))
    Store.open(url).close()
