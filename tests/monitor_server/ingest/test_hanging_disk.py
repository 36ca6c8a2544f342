"""Nobody waits for ever for a disk that does not answer, and batches that are sent again are stored."""

import json
import threading

import pytest

from monitor_server.ingest import deliveries
from monitor_server.store import database
from tests.databases import blocked_writes, sqlite_only
from tests.live import PATIENCE_SECONDS, eventually


@pytest.fixture
def hanging(start_collector, monkeypatch):
    """A collector with a write that does not end until the event is set, as one of a disk that does not answer."""
    monkeypatch.setattr(database, "TURN_LIMIT_SECONDS", 0.1)
    monkeypatch.setattr(deliveries, "LONGEST_WAIT_SECONDS", 0.5)
    live = start_collector()
    writer, has_begun, answers = live.app.state.collector.writer, threading.Event(), threading.Event()
    eventually(lambda: live.pool.request("GET", f"{live.url}/readyz").status == 200)
    writer.submit("hanging", lambda _: has_begun.set() or answers.wait())
    assert has_begun.wait(PATIENCE_SECONDS)
    yield live, answers
    answers.set()


def _post(live):
    batch = {"schema_version": 1, "run": "r", "records": [{"step": 0, "scalars": {"a": 1.0}}]}
    return live.post(json.dumps(batch).encode())


@sqlite_only
def test_requests_are_refused_while_the_disk_does_not_answer_and_what_is_sent_again_is_stored_once(hanging):
    """A waiting request is answered in time; the collector reports that it is not ready, and goes on without help."""
    live, answers = hanging
    refused = _post(live)
    assert (refused.status, refused.json()["error"]) == (503, "Unavailable")
    assert "has not taken this within 0.5 s, and nothing was stored" in refused.json()["detail"]
    readiness = live.pool.request("GET", f"{live.url}/readyz")
    assert readiness.status == 503
    assert "the disk is slow or does not answer" in readiness.json()["detail"]
    metrics = live.pool.request("GET", f"{live.url}/metrics").data.decode()
    assert 'rlvitals_database_faults_total{fault="slow"} 0.0' not in metrics
    answers.set()
    eventually(lambda: live.pool.request("GET", f"{live.url}/readyz").status == 200)
    eventually(lambda: _post(live).status == 200)
    assert eventually(lambda: _post(live).json().get("duplicates")) == 1
    (run,) = live.get("/runs")["items"]
    assert eventually(lambda: live.get(f"/runs/{run['id']}/steps")["items"])[0]["step"] == 0


def test_a_change_whose_commit_does_not_end_is_said_to_be_unknown(start_collector, monkeypatch, database_url):
    """The change may be stored later, as here, so its author must look before trying again."""
    live = start_collector()
    run_id = live.run(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    monkeypatch.setattr(deliveries, "LONGEST_WAIT_SECONDS", 1.5)
    assert live.get(f"/runs/{run_id}")["last_step"] == 0
    with blocked_writes(database_url) as other:
        answer = live.pool.request("PATCH", f"{live.url}/api/v1/runs/{run_id}", json={"title": "ours"})
        other.rollback()
    assert (answer.status, answer.json()["error"]) == (503, "OutcomeUnknown")
    assert "may or may not be stored" in answer.json()["detail"]
    eventually(lambda: live.get(f"/runs/{run_id}")["title"] == "ours")
