"""The writer answers each request, also when clients disconnect or the database fails."""

import itertools
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from monitor_server.errors import Unavailable
from monitor_server.ingest import writer as ingest_writer
from monitor_server.ingest.writer import Writer
from tests.databases import blocked_writes, execute, sqlite_only
from tests.full_disk import disk_of
from tests.live import PATIENCE_SECONDS, eventually
from tests.monitor_server.ingest.begun_commits import note_begun_commit
from tests.store_connections import current_connection
from trainer_hooks import wire


@pytest.fixture
def busy(store, database_url, monkeypatch):
    """A writer that cannot write until `other` ends its transaction, and an event that is set once it begins to."""
    writer, has_begun = Writer(store, max_waiting=100), note_begun_commit(store, monkeypatch)
    with blocked_writes(database_url) as other:
        writer.start()
        yield writer, other, has_begun
        other.rollback()
        writer.stop()


def _exists(name):
    return lambda repositories: repositories.runs.exists(name)


def test_a_request_that_is_cancelled_costs_nobody_else_an_answer(busy):
    """A waiting request is not begun, a request under way is finished, and the writer goes on."""
    writer, other, has_begun = busy
    under_way = writer.submit("a", _exists("a"))
    assert has_begun.wait(PATIENCE_SECONDS)
    waiting, kept = writer.submit("b", _exists("b")), writer.submit("c", _exists("c"))
    assert not under_way.cancel()
    assert waiting.cancel()
    other.rollback()
    assert under_way.result(60) is False
    assert kept.result(60) is False
    assert writer.submit("d", _exists("d")).result(60) is False
    assert writer.is_alive


def test_senders_that_come_and_go_are_all_answered(store):
    """After a commit the writer may expect more jobs than come; those that come are written and answered."""
    writer = Writer(store, max_waiting=100)
    writer.start()

    def send(sender):
        return [writer.submit(f"{sender}", _exists("a")).result(60) for _ in range(10 * sender)]

    with ThreadPoolExecutor(8) as senders:
        answers = list(senders.map(send, range(8)))
    writer.stop()
    assert answers == [[False] * 10 * sender for sender in range(8)]


def _fails(_):
    raise ArithmeticError("this job fails")


def test_a_commit_that_has_taken_too_long_does_not_try_each_of_its_jobs(busy, monkeypatch):
    """Each may take as long as the slow one, and its sender no longer waits then; it sends again."""
    monkeypatch.setattr(ingest_writer, "LONGEST_COMMIT_SECONDS", -1.0)
    writer, other, has_begun = busy
    under_way = writer.submit("first", _exists("a"))
    assert has_begun.wait(PATIENCE_SECONDS)
    waiting = [writer.submit("a", _exists("a")), writer.submit("b", _fails), writer.submit("c", _exists("c"))]
    other.rollback()
    assert under_way.result(60) is False
    for future in waiting:
        with pytest.raises(Unavailable, match="could not commit; send again later"):
            future.result(60)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_slow_database_refuses_a_commit_with_its_reason(busy, monkeypatch, caplog):
    """Each of the other jobs would take as long again; readyz and the log say why."""
    monkeypatch.setattr(ingest_writer, "LONGEST_COMMIT_SECONDS", 0.0)
    writer, other, has_begun = busy

    def sleep(_):
        # A time that may pass before the server sleeps ends in the words of a cancellation by a user now and then.
        current_connection().execute(text("SET LOCAL statement_timeout = 100"))
        current_connection().execute(text("SELECT pg_sleep(60)"))

    under_way = writer.submit("first", _exists("a"))
    assert has_begun.wait(PATIENCE_SECONDS)
    waiting = [writer.submit("a", _exists("a")), writer.submit("b", sleep), writer.submit("c", _exists("c"))]
    other.rollback()
    under_way.result(60)
    for future in waiting:
        with pytest.raises(Unavailable, match="due to statement timeout"):
            future.result(60)
    assert "due to statement timeout" in writer.recent_failure
    assert [record.exc_info for record in caplog.records] == [None]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_when_each_job_is_tried_nobody_waits_long_for_a_run_again(busy):
    """The whole commit has waited for it already; the next one has all its time."""
    writer, other, has_begun = busy
    limits = []

    def read_limit(_):
        limits.append(current_connection().execute(text("SHOW lock_timeout")).scalar_one())

    under_way = writer.submit("first", _exists("a"))
    assert has_begun.wait(PATIENCE_SECONDS)
    waiting = [writer.submit("a", read_limit), writer.submit("b", _fails)]
    other.rollback()
    under_way.result(60)
    assert waiting[0].result(60) is None
    assert isinstance(waiting[1].exception(60), ArithmeticError)
    writer.submit("c", read_limit).result(60)
    assert limits == ["10s", "500ms", "10s"]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_connection_that_is_lost_while_each_job_is_tried_is_no_defect(busy, store, caplog):
    """One job has failed, and the connection ends while the others are repeated: all are to be sent again."""
    writer, other, has_begun = busy
    tries = itertools.count()

    def lose(_):
        if next(tries):
            current_connection().execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    under_way = writer.submit("first", _exists("a"))
    assert has_begun.wait(PATIENCE_SECONDS)
    waiting = [writer.submit("a", lose), writer.submit("b", _fails), writer.submit("c", _exists("c"))]
    other.rollback()
    assert under_way.result(60) is False
    for future in waiting:
        with pytest.raises(Unavailable, match="cannot write: terminating connection"):
            future.result(60)
    assert store.faults.counts()["connection"] == 1
    assert [record.exc_info for record in caplog.records] == [None]
    assert writer.submit("d", _exists("d")).result(60) is False


def test_a_stop_finishes_what_waits_and_refuses_what_comes(busy):
    """A request is stored and answered, or refused with the words that nothing was stored."""
    writer, other, _ = busy
    waiting = [writer.submit(str(number), _exists("a")) for number in range(5)]
    other.rollback()
    writer.stop()
    assert [future.result(60) for future in waiting] == [False] * 5
    with pytest.raises(Unavailable, match="the collector stops, and nothing of this was stored"):
        writer.submit("late", _exists("a"))


@sqlite_only
def test_a_request_that_comes_while_the_writer_stops_is_answered(store):
    """The stop begins after the writer was found running and before the job is queued: the job is run or refused."""
    writer = Writer(store, max_waiting=100, max_waiting_bytes=100)
    stopper = threading.Thread(target=writer.stop)

    class StopMeanwhile(int):
        def __radd__(self, other):  # the writer adds the size of a job to what waits, before it queues the job
            if stopper.ident is None:
                stopper.start()
                stopper.join(1.0)  # the wait times out where the writer prevents a stop meanwhile
            return other + int(self)

    waiting = writer.submit("a", _exists("a"), size=1)
    future = writer.submit("a", _exists("a"), size=StopMeanwhile(1))
    stopper.join()
    assert waiting.done()
    assert future.done()


def _ready(live):
    answer = live.pool.request("GET", f"{live.url}/readyz")
    return answer.status, answer.json().get("detail", "")


def _send(live, step):
    body = {"schema_version": 1, "run": "r", "records": [{"step": step, "scalars": {"a": 1.0}}]}
    return live.post(json.dumps(body).encode())


@sqlite_only
@pytest.mark.parametrize("replaced", [False, True])
def test_a_database_that_was_removed_or_replaced_acknowledges_nothing(start_collector, tmp_path, replaced):
    """Ingest answers 503 and readyz states the reason; records that were acknowledged before are in the moved file."""
    live = start_collector()
    assert _send(live, 0).status == 200
    path = tmp_path / "rlvitals.db"
    path.rename(tmp_path / "away.db")
    if replaced:
        path.write_bytes(b"")
    answer = _send(live, 1)
    assert (answer.status, answer.json()["error"], answer.headers["Retry-After"]) == (503, "Unavailable", "1")
    status, says = _ready(live)
    assert status == 503
    assert "was removed or replaced" in says
    path.unlink(missing_ok=True)
    (tmp_path / "away.db").rename(path)
    assert _send(live, 1).status == 200
    assert _ready(live)[0] == 200


def _remove(path):
    path.unlink()


def _empty(path):
    os.truncate(path, 0)


@sqlite_only
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("rlvitals.db-wal", _remove),
        ("rlvitals.db-wal", _empty),
        ("rlvitals.db", _empty),
    ],
)
def test_a_damaged_database_acknowledges_nothing(start_collector, tmp_path, name, damage):
    """Commits to a file that has lost its beginning or its log are gone at the next start."""
    live = start_collector()
    assert _send(live, 0).status == 200
    damage(tmp_path / name)
    assert _send(live, 1).status == 503
    assert _ready(live)[0] == 503


# Holds what SQLite locks, in the index of the log, while it copies the log.
COPIES = """import fcntl, sys
index = open(sys.argv[1], "r+b")
fcntl.lockf(index, fcntl.LOCK_EX, 1, 121)
print(flush=True)
sys.stdin.read()"""


@sqlite_only
def test_a_log_that_was_cut_is_refused_while_another_process_copies_it(start_collector, tmp_path):
    """SQLite does not tell then how much of the log is in use."""
    live = start_collector()
    assert _send(live, 0).status == 200
    os.truncate(tmp_path / "rlvitals.db-wal", 0)
    command = [sys.executable, "-c", COPIES, str(tmp_path / "rlvitals.db-shm")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        assert "was removed, replaced or cut" in _send(live, 1).json()["detail"]
        other.communicate()


@sqlite_only
def test_a_full_disk_is_not_ready(start_collector):
    """Where a file cannot grow, ingest and readyz answer 503; nothing is acknowledged that is not stored."""
    live = start_collector(verdict_wait_seconds=0.0)
    assert _ready(live)[0] == 200
    action = {"action": "notify", "alert_id": "a", "outcome": "taken", "reason": "x" * 4_000, "detail": ""}
    with disk_of(1_500_000):
        for step in range(100):
            records = [{"step": step, "scalars": {"a": 1.0}, "actions": [action] * 50}]
            body = json.dumps({"schema_version": 2, "run": "r", "records": records}).encode()
            if live.post(body).status != 200:
                break
        assert step < 99
        assert live.post(body).status == 503
        assert _ready(live)[0] == 503
    eventually(lambda: live.post(body).status == 200)
    with live.app.state.collector.store.read() as repositories:
        stored, _ = repositories.records.after(wire.run_id("default", "r"), 0, limit=1_000, max_bytes=10**9)
    assert [record.step for record in stored] == list(range(step + 1))


NO_ROOM = """
CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER no_room BEFORE INSERT ON records EXECUTE FUNCTION no_room()
"""


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_disk_with_room_for_a_commit_and_none_for_records_is_not_ready(start_collector, database_url, caplog):
    """The probe can write its row, and no batch is stored: readyz says why, the log once, and both when it is over."""
    live = start_collector()
    assert _send(live, 0).status == 200
    execute(database_url, {"postgresql": NO_ROOM})
    assert [_send(live, 1).status for _ in range(3)] == [503] * 3
    status, says = _ready(live)
    assert (status, "No space left on device" in says) == (503, True)
    said = [record.getMessage() for record in caplog.records if "a commit failed" in record.getMessage()]
    assert [("No space left" in line) for line in said] == [True]
    execute(database_url, {"postgresql": "DROP TRIGGER no_room ON records"})
    assert _send(live, 1).status == 200
    assert _ready(live)[0] == 200
    assert "commits succeed again, after 3" in caplog.text


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_commit_without_a_job_that_was_done_is_no_sign_that_commits_succeed_again(busy, caplog):
    """Each run is locked elsewhere, as by a commit that waits for a standby; the log said that all is well again."""
    writer, other, _ = busy

    def lose(_):
        current_connection().execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    def meet_a_lock(repositories):
        repositories.limit_lock_waits(0.001)
        repositories.runs.exists("a")

    for job in (lose, meet_a_lock):
        with pytest.raises(Unavailable):
            writer.submit("a", job).result(60)
    assert "succeed again" not in caplog.text
    other.rollback()
    assert writer.submit("a", _exists("a")).result(60) is False
    assert "commits succeed again, after 1" in caplog.text


def test_a_job_that_is_unavailable_takes_no_other_with_it(busy):
    """A run that is being deleted refuses its own batch; the batches of other runs in the same commit are kept."""
    writer, other, has_begun = busy
    under_way = writer.submit("first", _exists("a"))
    assert has_begun.wait(PATIENCE_SECONDS)

    def refuse(_):
        raise Unavailable("this run is being deleted; send again later")

    waiting = [writer.submit("a", _exists("a")), writer.submit("b", refuse), writer.submit("c", _exists("c"))]
    other.rollback()
    assert under_way.result(60) is False
    assert waiting[0].result(60) is False
    assert waiting[2].result(60) is False
    with pytest.raises(Unavailable, match="is being deleted"):
        waiting[1].result(60)
    assert writer.recent_failure is None
