"""A collector that goes on after a newer version of rlvitals, a process of its own, has migrated the database."""

import contextlib
import itertools
import logging
import os
import select
import shutil
import socket
import socketserver
import threading
from pathlib import Path

import pytest
import sqlalchemy

import monitor_server
from monitor_server.errors import DatabaseMigrated
from monitor_server.store.repositories.log.blocks import block_steps
from monitor_server.store.schema.version import newest_schema
from tests.faults.collector import start
from tests.live import eventually
from tests.ports import reserved_port

PACKAGE = Path(monitor_server.__file__).parent
NEWER = "9000"
# It locks the runs, as every migration locks what it changes, and keeps the ends of the logs that it has found.
MIGRATION = f"""
import sqlalchemy as sa
from alembic import op

revision, down_revision = "{NEWER}", "{newest_schema()}"


def upgrade():
    op.add_column("runs", sa.Column("newer", sa.Integer()))
    op.execute("CREATE TABLE found AS SELECT id, log_end FROM runs")
"""  # noqa: S608 - our names


@pytest.fixture
def gate(tmp_path):
    """A path: a newer version reads the pipe that is made there, before it opens the database."""
    return tmp_path / "gate"


@pytest.fixture
def start_newer(tmp_path, database_url, monkeypatch, gate):
    """Return a function that starts a newer version on a port, as `tests.faults.collector.start` does."""
    folder = tmp_path / "newer"
    shutil.copytree(PACKAGE, folder / PACKAGE.name)  # with what was compiled
    (folder / PACKAGE.name / "store/migrations/versions" / f"{NEWER}_newer.py").write_text(MIGRATION)
    # The file names of migrations begin with a zero: this one is the newest of the newer version.
    version = folder / PACKAGE.name / "store/schema/version.py"
    version.write_text(version.read_text().replace('glob("0*.py")', 'glob("[09]*.py")'))
    opening = folder / PACKAGE.name / "store/schema/opening.py"
    begin = "    connection = connection.execution_options(rlvitals_write=True)\n"
    assert begin in opening.read_text()
    wait = f"    from pathlib import Path\n    gate = Path({str(gate)!r})\n    gate.exists() and gate.read_bytes()\n"
    opening.write_text(opening.read_text().replace(begin, wait + begin))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(PACKAGE.parent)]))
    monkeypatch.chdir(folder)
    return lambda port: start(database_url, port, is_warm=False)


def _post(live, step, *, port=None, run="training"):
    url = live.url if port is None else f"http://127.0.0.1:{port}"
    batch = {"schema_version": 1, "run": run, "records": [{"step": step, "scalars": {"reward/mean": 0.5}}]}
    return live.pool.request("POST", f"{url}/api/v1/ingest", json=batch)


def _migrated_faults(live):
    lines = live.pool.request("GET", f"{live.url}/metrics").data.decode().splitlines()
    (line,) = (line for line in lines if line.startswith('rlvitals_database_faults_total{fault="migrated"}'))
    return float(line.split()[-1])


def test_an_older_collector_stops_once_a_newer_one_has_migrated(start_collector, start_newer, caplog):
    """It says why to trainers, load balancers, Prometheus and its log; what it refuses, the newer one stores once."""
    older = start_collector()
    assert _post(older, 0).status == 200
    assert older.send(run="ended", end="finished", records=[{"step": 0}])["accepted"] == 1
    with reserved_port() as port, caplog.at_level(logging.ERROR), start_newer(port):
        eventually(lambda: _migrated_faults(older) > 0)  # without a request that writes
        for run in ("training", "ended"):
            refused = _post(older, 1, run=run)
            assert (refused.status, refused.json()["error"]) == (503, "DatabaseMigrated")
            assert refused.headers["Retry-After"] == "1"
        readiness = older.pool.request("GET", f"{older.url}/readyz")
        assert readiness.status == 503
        assert f"and it has {NEWER}, since another version of rlvitals has migrated" in readiness.json()["detail"]
        assert "another version of rlvitals has migrated" in caplog.text
        for run in ("training", "ended"):
            accepted = _post(older, 1, port=port, run=run)
            assert (accepted.status, accepted.json()["accepted"]) == (200, 1)
            page = f"http://127.0.0.1:{port}/api/v1/runs/{accepted.json()['run_id']}"
            eventually(lambda page=page: older.pool.request("GET", page).json()["last_step"] == 1)


def test_whatever_an_older_collector_acknowledges_was_stored_before_the_migration(
    start_collector, start_newer, database_url, gate
):
    """Several trainers send while a newer version migrates: the logs end afterwards where the migration found them."""
    older, refused, is_over = start_collector(verdict_wait_seconds=0.0), threading.Event(), threading.Event()
    os.mkfifo(gate)
    sent = dict.fromkeys(("r0", "r1", "r2"), 0)

    def send(run):
        while not (refused.is_set() or is_over.is_set()):
            answer = _post(older, sent[run], run=run)
            if answer.status != 200 and answer.json()["error"] == "DatabaseMigrated":
                refused.set()
            sent[run] += 1

    trainers = [threading.Thread(target=send, args=(run,)) for run in sent]

    def let_migrate():
        with gate.open("wb"):  # once the newer version waits at it
            for trainer in trainers:
                trainer.start()
            eventually(lambda: min(sent.values()) > 2 or is_over.is_set())

    opening = threading.Thread(target=let_migrate)
    opening.start()
    try:
        with reserved_port() as port, start_newer(port):
            eventually(refused.is_set)
    finally:
        is_over.set()
        os.close(os.open(gate, os.O_RDONLY | os.O_NONBLOCK))  # where the newer version has not come to it
        for thread in (opening, *trainers):
            thread.join()
    engine = sqlalchemy.create_engine(database_url)
    with engine.connect() as connection:
        found, now = (
            connection.execute(sqlalchemy.text(f"SELECT id, log_end FROM {table} ORDER BY id")).all()  # noqa: S608
            for table in ("found", "runs")
        )
    engine.dispose()
    assert len(found) == len(trainers)
    assert now == found


class Balancer(socketserver.ThreadingTCPServer):
    """Leads each connection to the next of several ports, as a service of Kubernetes does; it knows nothing of HTTP."""

    allow_reuse_address, daemon_threads = True, True

    def __init__(self, ports):
        super().__init__(("127.0.0.1", 0), Connection)
        self.ports, self.turn = ports, itertools.count()


class Connection(socketserver.BaseRequestHandler):
    """Copies the bytes of one connection in both directions until one end closes it."""

    def handle(self):
        """Copy."""
        port = self.server.ports[next(self.server.turn) % len(self.server.ports)]
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as onward:
            other = {self.request: onward, onward: self.request}
            while True:
                for ready in select.select(list(other), [], [])[0]:
                    if not (given := ready.recv(65_536)):
                        return
                    other[ready].sendall(given)


@pytest.fixture
def balanced():
    """Return a function that starts a balancer of ports, and returns it."""
    with contextlib.ExitStack() as stack:

        def serve(ports):
            balancer = stack.enter_context(Balancer(ports))
            thread = threading.Thread(target=balancer.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            stack.callback(thread.join)
            stack.callback(balancer.shutdown)
            return balancer

        yield serve


def _port(live):
    return int(live.url.rpartition(":")[2])


def _stored_steps(database_url):
    engine = sqlalchemy.create_engine(database_url)
    with engine.connect() as connection:
        blocks = connection.execute(
            sqlalchemy.text("SELECT name, seq, step, entries FROM records JOIN runs ON runs.id = run_id ORDER BY seq")
        ).all()
    engine.dispose()
    steps = {name: [] for name, *_ in blocks}
    for name, seq, step, entries in blocks:
        steps[name].extend(block_steps(entries, seq=seq, step=step))
    return steps


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_trainers_of_three_collectors_go_on_at_the_newer_one(
    start_collector, start_newer, balanced, start_trainer, database_url
):
    """It takes the place of one of them; whatever was acknowledged is stored once, and no trainer loses a record."""
    older = [start_collector() for _ in range(3)]
    balancer = balanced([_port(live) for live in older])
    url = f"http://127.0.0.1:{balancer.server_address[1]}"
    names = ("a", "b")
    trainers = [start_trainer(url, RLVITALS_RUN=name) for name in names]

    def log(steps):
        for trainer in trainers:
            trainer.grant(steps)
        for trainer in trainers:
            trainer.logged(steps)

    log(50)
    eventually(lambda: _stored_steps(database_url) == {name: list(range(50)) for name in names})
    with reserved_port() as port, start_newer(port):
        balancer.ports[0] = port
        assert {_post(live, 0).status for live in older} == {503}
        log(50)
        assert [trainer.end() for trainer in trainers] == [0, 0]
        assert _stored_steps(database_url) == {name: list(range(100)) for name in names}


def test_a_write_is_undone_while_the_database_has_an_older_schema(store, append, database_url):
    """As where a backup of an older version is restored into it; once the schema is right again, writes succeed."""
    run_id = append(records=[{"step": 0}])
    engine = sqlalchemy.create_engine(database_url)

    def set_version(version):
        with engine.begin() as connection:
            connection.execute(
                sqlalchemy.text("UPDATE alembic_version SET version_num = :version"), {"version": version}
            )

    def attempts():
        with store.read() as repositories:
            return list(repositories.attempts.ordinals(run_id))

    set_version("0031")
    with pytest.raises(DatabaseMigrated, match="it has 0031"):
        append(attempt=2, records=[{"step": 1}])
    assert attempts() == [1]
    assert store.faults.counts()["migrated"] == 1
    set_version(newest_schema())
    engine.dispose()
    append(attempt=2, records=[{"step": 1}])
    assert attempts() == [1, 2]
