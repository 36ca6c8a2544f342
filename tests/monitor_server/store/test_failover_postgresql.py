"""An address that leads to a replica of PostgreSQL for a moment, as during a failover: nobody stays there."""

import contextlib
import math

import psycopg
import pytest

from monitor_server.errors import Unavailable
from monitor_server.store.database import Store
from monitor_server.store.postgresql import connections, listen_notify
from monitor_server.store.postgresql.bounded_connection import BoundedConnection
from monitor_server.store.postgresql.listen_notify import NotifyChannel
from tests.live import eventually
from tests.monitor_server.store.store_faults import writes
from tests.postgres import create_database
from tests.relays import Relay
from tests.store_connections import current_connection


def _connect(url):
    return psycopg.connect(url.replace("+psycopg", ""), autocommit=True)


@pytest.fixture(scope="module")
def standby(server):
    """The port of a standby, and the name of its database with today's schema."""
    url = create_database(server.url)
    Store.open(url).close()
    server.restart_as_standby()
    return server.port, url.rpartition("/")[2]


@pytest.fixture
def failover(migrated_postgres, standby):
    """A store on a primary server, and two functions: lead its address to a standby, and lead it back."""
    standby_port, name = standby
    with _connect(migrated_postgres()) as connection:
        primary_port, copied = connection.info.port, connection.info.dbname
    relay = Relay(primary_port)
    server = f"postgresql+psycopg://rlvitals@127.0.0.1:{primary_port}"
    with _connect(f"{server}/postgres") as connection:
        connection.execute(f"ALTER DATABASE {copied} RENAME TO {name}")

    def lead_to_standby():
        relay.to = standby_port
        relay.cut()

    def lead_back():  # the standby is healthy, so its connections stay
        relay.to = primary_port

    with contextlib.closing(Store.open(f"postgresql+psycopg://rlvitals@127.0.0.1:{relay.port}/{name}")) as store:
        yield store, lead_to_standby, lead_back
    relay.end()
    with _connect(f"{server}/postgres") as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _reader(store):
    """Return the process of the server that answers a reader, and whether the server is a standby."""
    with store.read():
        query = "SELECT pg_backend_pid(), pg_is_in_recovery()"
        return tuple(current_connection().exec_driver_sql(query).one())


def _reads_from_standby(store):
    with contextlib.suppress(Unavailable):  # the connections that were cut
        return _reader(store)[1]
    return False


@pytest.mark.parametrize("returned", [writes, lambda store: not _reader(store)[1]], ids=["writer", "reader"])
def test_whoever_has_connected_to_a_standby_returns_to_the_primary(returned, failover, monkeypatch):
    """A collector that only reads meets no error there, and showed the data of the standby until its restart."""
    monkeypatch.setattr(connections, "READ_ONLY_SECONDS", math.inf)
    store, lead_to_standby, lead_back = failover
    lead_to_standby()
    eventually(lambda: _reads_from_standby(store))
    with pytest.raises(Unavailable, match="in a read-only transaction"):
        store.probe()
    assert _reader(store) == _reader(store)  # while it may be all there is, a connection is not made for each reader
    lead_back()
    monkeypatch.setattr(connections, "READ_ONLY_SECONDS", 0.0)
    eventually(lambda: returned(store))


def _sessions(connection):
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    return {pid for (pid,) in connection.execute(f"SELECT pid FROM pg_stat_activity WHERE {others}")}  # noqa: S608


def test_live_events_leave_a_server_that_takes_no_writes(migrated_postgres, monkeypatch):
    """Messages of other collectors come by the server to which these write; a session keeps its old default."""
    monkeypatch.setattr(listen_notify, "RECONNECT_SECONDS", 0.01)
    monkeypatch.setattr(listen_notify, "PROBE_SECONDS", 0.0)
    url, gaps = migrated_postgres(), []
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(_connect(url))
        store = stack.enter_context(contextlib.closing(Store.open(url)))
        channel = store.open_notifications(lambda _: None, lambda: gaps.append(1))
        stack.callback(channel.stop)
        channel.start()
        eventually(lambda: channel.is_listening)
        setting = f"DATABASE {connection.info.dbname} SET default_transaction_read_only"
        connection.execute(f"ALTER {setting} = on")
        connection.execute("SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s) AS pid", [[*_sessions(connection)]])
        channel.send(lambda: "first")
        eventually(lambda: len(gaps) > 1 and len(_sessions(connection)) > 1)
        read_only = _sessions(connection)
        connection.execute(f"ALTER {setting} = off")
        eventually(lambda: read_only.isdisjoint(_sessions(connection)))
        eventually(lambda: channel.is_listening and channel.waiting == 0)
    assert channel.dropped == 0


def test_live_events_report_a_gap_only_once_a_server_takes_writes(migrated_postgres, monkeypatch):
    """While it takes none nothing is lost, and each gap makes every dashboard read everything again."""
    monkeypatch.setattr(listen_notify, "PROBE_SECONDS", 0.0)
    url, gaps, looks = migrated_postgres(), [], []

    def connect():
        looks.append(1)
        return BoundedConnection.connect(url.replace("+psycopg", ""), autocommit=True)

    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(_connect(url))
        setting = f"DATABASE {connection.info.dbname} SET default_transaction_read_only"
        connection.execute(f"ALTER {setting} = on")
        channel = NotifyChannel(connect, on_message=lambda _: None, on_gap=lambda: gaps.append(1))
        stack.callback(channel.stop)
        channel.start()
        eventually(lambda: len(looks) > 4)
        assert gaps == [1]
        connection.execute(f"ALTER {setting} = off")
        eventually(lambda: gaps == [1, 1])
