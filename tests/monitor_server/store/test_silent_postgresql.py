"""A PostgreSQL server with paused processes: every wait for it ends, and nothing is lost or doubled."""

import contextlib
import json
import math
import threading

import pytest
from sqlalchemy import event, text

from monitor_server.errors import DatabaseUnusable, Unavailable
from monitor_server.settings import Settings
from monitor_server.store import database, faults
from monitor_server.store.operations.inspection import inspect_database
from monitor_server.store.postgresql import connections, unresponsive_server
from monitor_server.store.postgresql.bounded_connection import BoundedConnection
from monitor_server.store.postgresql.connections import POSTGRES_OPTIONS, without_time_limit
from tests.live import PATIENCE_SECONDS, eventually, serving
from tests.postgres import create_database
from tests.store_connections import current_connection, engine_of
from trainer_hooks import wire

INSERT = text("INSERT INTO silenced VALUES (1)")
COUNT = text("SELECT count(*) FROM silenced")


@pytest.fixture
def impatient(monkeypatch):
    """Wait less than in life; a new connection waits for two seconds at the least."""
    monkeypatch.setattr(BoundedConnection, "answer_seconds", 0.5)
    monkeypatch.setattr(connections, "TEST_SECONDS", 0.2)
    monkeypatch.setitem(POSTGRES_OPTIONS["connect_args"], "connect_timeout", 2)


@pytest.fixture
def silent_store(server, impatient):  # noqa: ARG001 - it sets how long the store waits
    """A store whose server a test pauses; the server goes on at the end."""
    with contextlib.closing(database.Store.open(create_database(server.url))) as store:
        _write(store, lambda connection: connection.execute(text("CREATE TABLE silenced (value integer)")))
        try:
            yield store
        finally:
            server.resume()


def _insert(connection):
    connection.execute(INSERT)


def _write(store, *actions):
    with store.write():
        for act in actions:
            act(current_connection())


def _count(store):
    with store.read():
        return current_connection().execute(COUNT).scalar_one()


def _answers(store):
    try:
        store.probe()
    except Unavailable:
        return False
    return True


def test_a_statement_that_is_not_answered_ends_and_stores_nothing(server, silent_store):
    """The server is paused within a transaction; then it goes on, and the next transaction succeeds."""
    with pytest.raises(Unavailable, match="does not answer: nothing came from it"):
        _write(silent_store, _insert, lambda _: server.pause(), _insert)
    assert silent_store.faults.counts()["silent"] == 1
    server.resume()
    eventually(lambda: _answers(silent_store))
    assert _count(silent_store) == 0


def test_a_commit_that_is_not_answered_ends_and_may_have_been_made(server, silent_store):
    """The server has the commit, and makes it when it goes on: a sender of the same batch meets its rows."""

    def pause_at_commit(connection):
        event.listen(connection, "commit", lambda _: server.pause())

    with pytest.raises(Unavailable, match="does not answer: nothing came from it"):
        _write(silent_store, _insert, pause_at_commit)
    server.resume()
    eventually(lambda: _answers(silent_store))
    eventually(lambda: _count(silent_store) == 1)


def test_who_comes_while_a_server_is_silent_is_refused_at_once(server, silent_store, monkeypatch):
    """No request takes a connection, because the server would have to serve each of them when it goes on."""
    monkeypatch.setattr(unresponsive_server, "PAUSE_SECONDS", math.inf)
    pool = engine_of(silent_store).pool
    server.pause()
    with pytest.raises(Unavailable, match="does not answer"):
        _count(silent_store)
    counted = silent_store.faults.counts()["silent"]
    for begin in (silent_store.read, silent_store.write):
        for _ in range(50):
            with pytest.raises(Unavailable, match="the collector tries to reach it"), begin():
                pass
    assert silent_store.faults.counts()["silent"] == counted + 100
    assert pool.checkedout() == 0


def test_who_can_do_without_a_silent_server_never_asks_it(server, silent_store, monkeypatch):
    """The metrics, which Prometheus waits for no longer than ten seconds: others ask in their place."""
    monkeypatch.setattr(unresponsive_server, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(faults, "LOST_SECONDS", 0.0)
    server.pause()
    with pytest.raises(Unavailable, match="does not answer"):
        _count(silent_store)
    counted = silent_store.faults.counts()
    with pytest.raises(Unavailable, match="is lost"), silent_store.read_if_connected():
        pass
    assert silent_store.faults.counts() == counted


def test_a_silent_database_is_inspected_no_longer_than_any_other(server, silent_store):
    """`rlvitals doctor` does this, in a process that has no connection to it yet."""
    url = engine_of(silent_store).url.render_as_string(hide_password=False)
    assert inspect_database(url).kind == "postgresql"
    server.pause()
    with pytest.raises(DatabaseUnusable, match="does not answer: no new connection"):
        inspect_database(url)


def test_a_migration_may_take_longer_than_any_other_work(silent_store):
    """A large table is rewritten in one statement; neither side ends it."""
    with silent_store.write(), without_time_limit(connection := current_connection()):
        assert connection.execute(text("SHOW statement_timeout")).scalar_one() == "0"
        connection.execute(text(f"SELECT pg_sleep({2 * BoundedConnection.answer_seconds})"))
    with silent_store.read():
        assert current_connection().execute(text("SHOW statement_timeout")).scalar_one() == "12s"
        driver = current_connection().connection.driver_connection
        assert driver.answer_seconds == BoundedConnection.answer_seconds


@pytest.mark.usefixtures("impatient")
def test_a_collector_says_that_its_database_is_silent_and_goes_on_by_itself(server):
    """Ingest under way and pages answer 503, readyz and metrics name the fault; then each batch is there once."""
    settings = Settings(database_url=create_database(server.url), dashboard="", tick_seconds=0.1)
    with serving(settings) as collector:

        def send(step):
            record = {"step": step, "seq": step, "scalars": {"x": float(step)}}
            body = {"schema_version": wire.SCHEMA_VERSION, "run": "r", "attempt": 1, "records": [record]}
            return collector.post(json.dumps(body).encode())

        def ask(path):
            answer = collector.pool.request("GET", f"{collector.url}{path}")
            return answer.status, answer.data.decode()

        assert send(0).status == 200
        refused = []
        server.pause()
        try:
            senders = [threading.Thread(target=lambda step=step: refused.append(send(step))) for step in (1, 2, 3)]
            for sender in senders:
                sender.start()
            for path in ("/api/v1/runs", "/readyz"):
                status, said = ask(path)
                assert status == 503
                assert "the database does not answer" in said
            for sender in senders:
                sender.join(PATIENCE_SECONDS)
            assert [(each.status, each.headers["Retry-After"]) for each in refused] == [(503, "1")] * 3
            counted = [line for line in ask("/metrics")[1].splitlines() if "database_faults_total{" in line]
            assert [line for line in counted if not line.endswith(" 0.0")] == [
                line for line in counted if 'fault="silent"' in line
            ]
        finally:
            server.resume()
        eventually(lambda: all(send(step).status == 200 for step in (1, 2, 3)))
        eventually(lambda: ask("/readyz")[0] == 200)
        run_id = wire.run_id("default", "r")
        eventually(lambda: collector.get(f"/runs/{run_id}")["last_step"] == 3)
        assert [each["step"] for each in collector.get(f"/runs/{run_id}/steps")["items"]] == [0, 1, 2, 3]
        with collector.app.state.collector.store.read():
            seqs = text("SELECT seq FROM records ORDER BY seq")
            assert current_connection().execute(seqs).scalars().all() == [0, 1, 2, 3]
