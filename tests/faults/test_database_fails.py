"""A PostgreSQL server that stops, or accepts no writes for a while, under a collector that goes on."""

import functools

import msgspec
import psycopg
import pytest
import urllib3

from tests.faults.collector import start
from tests.faults.many_collectors import RUN, RUN_ID, make_record
from tests.live import PATIENCE_SECONDS, eventually
from tests.ports import reserved_port
from tests.postgres import create_database, postgres_server
from trainer_hooks import wire


def _set_read_only(server, value):
    connect = functools.partial(psycopg.connect, f"{server.url}/postgres".replace("+psycopg", ""), autocommit=True)
    with connect() as connection:
        connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")

    def is_loaded():  # a server that has just started may miss the signal
        with connect() as connection:
            connection.execute("SELECT pg_reload_conf()")
        with connect() as connection:
            return connection.execute("SHOW default_transaction_read_only").fetchone() == (value,)

    eventually(is_loaded)


@pytest.fixture
def server():
    """A server of the test's own."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def pool():
    """Connections to the collector."""
    with urllib3.PoolManager(retries=False, timeout=PATIENCE_SECONDS) as pool:
        yield pool


def _send(pool, url, step):
    batch = wire.Batch(
        schema_version=wire.SCHEMA_VERSION, run=RUN, records=[msgspec.Raw(wire.encode(make_record(step, 0)))]
    )
    return pool.request("POST", f"{url}/ingest", body=wire.encode(batch), headers={"Content-Type": wire.MSGPACK})


def _counted_faults(pool, root):
    answer = pool.request("GET", f"{root}/metrics")
    assert answer.status == 200
    counted = (line for line in answer.data.decode().splitlines() if line.startswith("rlvitals_database_faults_total{"))
    return {line.split('"')[1]: float(line.rsplit(" ", 1)[1]) for line in counted}


@pytest.mark.parametrize(
    ("fail", "repair", "named"),
    [
        # Slow: a failed commit says for half a minute that the collector is not ready, unless a later one succeeds.
        pytest.param(
            lambda server: server.stop(),
            lambda server: server.start(),
            ("connection", "connection"),
            id="stopped",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            lambda server: _set_read_only(server, "on"),
            lambda server: _set_read_only(server, "off"),
            ("read-only", "read_only"),
            id="read-only",
        ),
    ],
)
def test_what_a_failed_postgresql_cannot_store_is_not_acknowledged(server, pool, fail, repair, named):
    """Ingest answers 503, readyz states the reason, and metrics name the fault; then all that comes is stored."""
    reason, fault = named
    with reserved_port() as port, start(create_database(server.url), port):
        root = f"http://127.0.0.1:{port}"
        api = f"{root}/api/v1"

        def readiness():
            answer = pool.request("GET", f"{root}/readyz")
            return answer.status, answer.json().get("detail", "")

        acknowledged = []

        def send_next():
            answer = _send(pool, api, len(acknowledged))
            if answer.status == 200:
                acknowledged.append(len(acknowledged))
            return answer

        def refusal():  # a session of the collector may learn of the change a moment later than ours
            answer = send_next()
            return answer if answer.status != 200 else None

        assert send_next().status == 200
        fail(server)
        refused = eventually(refusal)
        assert (refused.status, refused.json()["error"], refused.headers["Retry-After"]) == (503, "Unavailable", "1")
        status, detail = readiness()
        assert status == 503
        assert reason in detail
        counted = _counted_faults(pool, root)
        assert counted.pop(fault) > 0
        assert set(counted.values()) == {0.0}
        repair(server)
        eventually(lambda: readiness()[0] == 200)
        assert eventually(lambda: send_next().status == 200)
        assert send_next().status == 200
        last = acknowledged[-1]
        eventually(lambda: pool.request("GET", f"{api}/runs/{RUN_ID}").json()["last_step"] == last)
        steps = pool.request("GET", f"{api}/runs/{RUN_ID}/steps").json()["items"]
        assert [step["step"] for step in steps] == acknowledged
