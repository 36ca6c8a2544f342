"""Where trainers send more than can be written, they are asked to wait, and nothing is lost."""

import json
import threading

import pytest

import trainer_hooks
from monitor_server.settings import Settings
from monitor_server.step_processing.steps.rank_merging import step_bounds
from tests.databases import blocked_writes
from tests.live import PATIENCE_SECONDS, eventually
from tests.monitor_server.ingest.begun_commits import note_begun_commit

RANKS = 4
STEPS = 20


def test_trainers_wait_for_a_collector_whose_queue_is_full_and_lose_nothing(start_collector, database_url, monkeypatch):
    """Four ranks send while nothing can be written and one batch may wait; afterwards every step is there once."""
    monkeypatch.setenv("RLVITALS_ATTEMPT", "1")
    live = start_collector(max_waiting_batches=1)
    writer = live.app.state.collector.writer
    live.send(run="before")
    with blocked_writes(database_url) as other:
        ranks = [trainer_hooks.connect(live.url, run="r", rank=rank, world_size=RANKS) for rank in range(RANKS)]
        for step in range(STEPS):
            for monitor in ranks:
                monitor.log_step(step, {"reward/mean": float(step)})
        eventually(lambda: writer.waiting == 1)
        answer = live.post(json.dumps({"schema_version": 1, "run": "x"}).encode())
        assert (answer.status, answer.headers["Retry-After"], answer.json()["error"]) == (503, "1", "Unavailable")
        other.rollback()
    for monitor in ranks:
        assert monitor.flush(PATIENCE_SECONDS)
    run_id = next(run["id"] for run in live.get("/runs")["items"] if run["name"] == "r")
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == STEPS - 1)
    with live.app.state.collector.store.read() as repositories:
        stored = dict(repositories.records.of_steps(run_id, 1, range(STEPS), bounds=step_bounds(Settings())))
    assert {step: sorted(record.rank for record in found.records) for step, found in stored.items()} == {
        step: list(range(RANKS)) for step in range(STEPS)
    }
    assert [monitor.drops.dropped_records for monitor in ranks] == [0] * RANKS
    for monitor in ranks:
        monitor.close()


@pytest.mark.parametrize("max_waiting_bytes", [1, 100_000])
def test_the_bytes_that_wait_are_bounded(start_collector, database_url, max_waiting_bytes, monkeypatch):
    """A batch that is larger than the bound may wait alone; the next one is asked to come again."""
    live = start_collector(max_waiting_bytes=max_waiting_bytes)
    writer = live.app.state.collector.writer
    live.send(run="before")
    body = json.dumps(
        {"schema_version": 1, "run": "r", "records": [{"step": 0, "scalars": {f"{n:060}": 1.0 for n in range(400)}}]}
    ).encode()
    answers = []

    def send():
        answers.append(live.post(body).status)

    has_begun = note_begun_commit(live.app.state.collector.store, monkeypatch)
    with blocked_writes(database_url) as other:
        senders = [threading.Thread(target=send) for _ in range(8)]
        senders[0].start()
        assert has_begun.wait(PATIENCE_SECONDS)
        assert (writer.waiting, writer.waiting_bytes) == (0, 0)
        for sender in senders[1:]:
            sender.start()
        fitting = max(1, max_waiting_bytes // 33_000)
        eventually(lambda: len(answers) == 7 - fitting)
        assert set(answers) == {503}
        assert writer.waiting == fitting
        assert writer.waiting_bytes > 25_000
        other.rollback()
    for sender in senders:
        sender.join()
    assert sorted(answers) == [200] * (1 + fitting) + [503] * (7 - fitting)
    assert writer.waiting_bytes == 0
    metrics = live.pool.request("GET", f"{live.url}/metrics").data.decode()
    assert "rlvitals_waiting_batch_bytes 0.0" in metrics
