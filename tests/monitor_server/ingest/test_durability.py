"""An acknowledged record is stored exactly once, however the collector ends."""

import json
import threading

import pytest
import urllib3

from monitor_server.settings import Settings
from monitor_server.step_processing.steps.rank_merging import step_bounds
from monitor_server.store.database import Store
from tests.databases import blocked_writes, execute
from tests.faults.collector import start
from tests.live import eventually
from tests.monitor_server.ingest.begun_commits import note_begun_commit
from trainer_hooks import wire

RANKS = 4
KILLS = 3


def _send_forever(url, rank, acknowledged, stop):
    """Send step after step, each again until it is acknowledged; some acknowledged ones a second time."""
    with urllib3.PoolManager(retries=False, timeout=5) as pool:
        step = 0
        while not stop.is_set():
            record = {
                "step": step,
                "scalars": {"lr": step},
                "summaries": {"x": {"type": "moments", "count": 1, "sum": step}},
            }
            body = {"schema_version": 1, "run": "r", "rank": rank, "world_size": RANKS, "records": [record]}
            try:
                answer = pool.request(
                    "POST", f"{url}/api/v1/ingest", body=json.dumps(body), headers={"Content-Type": wire.JSON}
                )
            except urllib3.exceptions.HTTPError:
                stop.wait(0.05)
                continue
            if answer.status == 200:
                acknowledged[rank].append(step)
                step += 0 if step % 7 == 3 and acknowledged[rank][-2:] != [step, step] else 1


def test_every_acknowledged_record_survives_kill_nine_once(tmp_path, unused_port):
    """Four ranks send while the collector is killed three times; nothing acknowledged is lost or doubled."""
    database = tmp_path / "x.db"
    acknowledged = {rank: [] for rank in range(RANKS)}
    stop = threading.Event()
    senders = [
        threading.Thread(target=_send_forever, args=(f"http://127.0.0.1:{unused_port}", rank, acknowledged, stop))
        for rank in range(RANKS)
    ]
    for sender in senders:
        sender.start()
    try:
        for kill in range(1, KILLS + 1):
            with start(database, unused_port) as process:
                goal = 25 * kill
                eventually(lambda goal=goal: min(len(steps) for steps in acknowledged.values()) >= goal, seconds=60)
                process.kill()
    finally:
        stop.set()
        for sender in senders:
            sender.join()
    run_id = wire.run_id("default", "r")
    sent = max(max(steps) for steps in acknowledged.values())
    store = Store.open(f"sqlite:///{database}")
    with store.read() as repositories:
        stored = dict(repositories.records.of_steps(run_id, 1, range(sent + 2), bounds=step_bounds(Settings())))
    held = {(record.rank, record.step) for step in stored.values() for record in step.records}
    assert {(rank, step) for rank, steps in acknowledged.items() for step in steps} <= held
    assert len(held) == sum(len(step.records) for step in stored.values())
    whole = [step for step in range(sent) if sum((rank, step) in held for rank in range(RANKS)) == RANKS]

    def merge():
        with store.read() as repositories:
            merged = {step.step: step.signals for step in repositories.steps.page(run_id, from_step=0, limit=100_000)}
        return merged if merged.keys() >= set(whole) else None

    with start(database, unused_port):  # the collectors that were killed may have stored more than they merged
        merged = eventually(merge)
    store.close()
    # The mean of four equal shares is the step itself; a doubled or lost share of it would leave lr behind.
    assert all(merged[step] == {"lr": float(step), "x": float(step)} for step in whole)
    assert len(whole) >= 20 * KILLS


NO_BAD_RUN = {
    "sqlite": "CREATE TRIGGER no_bad BEFORE INSERT ON runs WHEN NEW.name = 'bad' "
    "BEGIN SELECT RAISE(ABORT, 'this run fails'); END",
    "postgresql": "ALTER TABLE runs ADD CONSTRAINT no_bad CHECK (name <> 'bad')",
}


@pytest.fixture
def held(start_collector, database_url, monkeypatch):
    """A collector that cannot write until `release`, because another process does, and that fails at the run `bad`."""
    live = start_collector(max_waiting_batches=3)
    live.send(run="before")
    execute(database_url, NO_BAD_RUN)
    has_begun = note_begun_commit(live.app.state.collector.store, monkeypatch)
    with blocked_writes(database_url) as other:
        answers = {}
        senders = [_send_in_thread(live, answers, "first")]
        assert has_begun.wait(60)

        def send(run):
            senders.append(_send_in_thread(live, answers, run))

        def release():
            other.rollback()
            for sender in senders:
                sender.join()
            return {run: answer.status for run, answer in answers.items()}

        yield live, send, release, answers
        release()


def _send_in_thread(live, answers, run):
    body = {"schema_version": 1, "run": run, "records": [{"step": 0, "scalars": {"a": 1.0}}]}
    sender = threading.Thread(target=lambda: answers.update({run: live.post(json.dumps(body).encode())}))
    sender.start()
    return sender


def test_a_batch_that_fails_does_not_poison_its_commit(held):
    """Three batches gather while the writer is busy and share a commit; the middle one fails alone."""
    live, send, release, _ = held
    writer = live.app.state.collector.writer
    for place, run in enumerate(("good", "bad", "last"), start=1):
        send(run)
        eventually(lambda place=place: writer.waiting == place)
    assert release() == {"first": 200, "good": 200, "bad": 500, "last": 200}
    assert {run["name"] for run in live.get("/runs")["items"]} == {"before", "first", "good", "last"}


def test_a_full_queue_says_try_again(held):
    """Where the writer cannot keep up, the answer is 503 with Retry-After; queued batches are stored."""
    _, send, release, answers = held
    for number in range(5):
        send(f"r{number}")
    eventually(lambda: len(answers) == 2)
    for answer in list(answers.values()):
        assert (answer.status, answer.headers["Retry-After"], answer.json()["error"]) == (503, "1", "Unavailable")
    assert sorted(release().values()) == [200, 200, 200, 200, 503, 503]
