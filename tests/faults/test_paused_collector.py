"""A collector that is paused in the middle of a slice, and goes on after another one has taken its run over."""

import contextlib
import os
import signal
import threading

import msgspec
import psycopg
import urllib3

from tests.faults.collector import start
from tests.faults.many_collectors import RUN, Ranks, make_record, read_outcome
from tests.live import PATIENCE_SECONDS, eventually
from tests.ports import reserved_port
from trainer_hooks import wire

STEPS = 30
OK = 200
WATCH_POSITION = """
CREATE TABLE went_back (position bigint);
CREATE FUNCTION note_position() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN INSERT INTO went_back VALUES (NEW.position); RETURN NEW; END';
CREATE TRIGGER went_back BEFORE UPDATE ON runs FOR EACH ROW WHEN (NEW.position < OLD.position)
    EXECUTE FUNCTION note_position();
"""
WAITING = """
SELECT application_name FROM pg_stat_activity JOIN pg_locks USING (pid)
WHERE NOT granted AND relation = 'acknowledgements'::regclass
"""
IDLE = """
SELECT bool_and(state = 'idle' AND state_change < clock_timestamp() - interval '200 ms') FROM pg_stat_activity
WHERE application_name IN ('first', 'second')
"""
FIRST = 10  # the step whose slice is interrupted


def _send(port, steps):
    records = [msgspec.Raw(wire.encode(make_record(step, 0))) for step in steps]
    batch = wire.encode(wire.Batch(schema_version=wire.SCHEMA_VERSION, run=RUN, records=records))
    with urllib3.PoolManager(retries=False, timeout=PATIENCE_SECONDS) as pool:
        url = f"http://127.0.0.1:{port}/api/v1/ingest"
        return pool.request("POST", url, body=batch, headers={"Content-Type": wire.MSGPACK}).status


def test_what_a_paused_collector_writes_late_is_refused(migrated_postgres, monkeypatch):
    """SIGSTOP comes while it reads a slice; another one projects the run to its end; SIGCONT changes nothing."""
    database, quiet = migrated_postgres(), migrated_postgres()
    plain = database.replace("+psycopg", "")
    with (
        contextlib.ExitStack() as stack,
        psycopg.connect(plain, autocommit=True) as watcher,
        psycopg.connect(plain) as blocker,
    ):
        watcher.execute(WATCH_POSITION)
        ports = {name: stack.enter_context(reserved_port()) for name in ("first", "second")}
        processes = {}
        for name, port in ports.items():
            monkeypatch.setenv("PGAPPNAME", name)
            processes[name] = stack.enter_context(start(database, port))
        assert _send(ports["first"], range(FIRST)) == OK
        eventually(lambda: _last_step(watcher) == FIRST - 1)
        eventually(lambda: watcher.execute(IDLE).fetchone()[0])
        # The slice waits here for its last read: its snapshot, and the revision in it, are old from now on.
        blocker.execute("LOCK TABLE acknowledgements IN ACCESS EXCLUSIVE MODE")
        sender = threading.Thread(target=_send, args=(ports["first"], [FIRST]))
        sender.start()
        (paused,) = eventually(lambda: watcher.execute(WAITING).fetchone())
        (other,) = ports.keys() - {paused}
        os.kill(processes[paused].pid, signal.SIGSTOP)
        try:
            blocker.rollback()
            assert _send(ports[other], range(FIRST + 1, STEPS - 1)) == OK
            eventually(lambda: _last_step(watcher) == STEPS - 2)
        finally:
            os.kill(processes[paused].pid, signal.SIGCONT)
            sender.join()
        assert _send(ports[paused], [STEPS - 1]) == OK
        outcome = read_outcome(database, steps=STEPS)
        assert watcher.execute("SELECT position FROM went_back").fetchall() == []
    with reserved_port() as alone, start(quiet, alone):
        Ranks([f"http://127.0.0.1:{alone}"], 1, STEPS).run()
        assert outcome == read_outcome(quiet, steps=STEPS)


def _last_step(watcher):
    row = watcher.execute("SELECT last_step FROM runs").fetchone()
    return row and row[0]
