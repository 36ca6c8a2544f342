"""An operator undoes what a stray message has done to a run."""

import time

import pytest

from monitor_server.errors import InvalidField, UnknownRun
from monitor_server.ingest.reset import reset_run
from tests.live import eventually


@pytest.fixture
def live(start_collector, scripted):
    return start_collector(engine=scripted)


def _reset(live, run_id, **fields):
    writer = live.app.state.collector.writer
    return writer.submit(
        run_id, lambda repositories: reset_run(repositories, run_id, now=time.time(), **fields)
    ).result()


def _step(live, step, **batch):
    return live.send(run="r", records=[{"step": step, "scalars": {"a": 1.0}}], **batch)


def test_a_stray_attempt_is_taken_back(live):
    """Its steps go, detection goes on with the attempt that trains, and so does the verdict."""
    run_id = _step(live, 0)["run_id"]
    _step(live, 900, attempt=10**12)
    assert _step(live, 1)["newest_attempt"] == 10**12
    _reset(live, run_id, attempt=1)
    receipt = _step(live, 2)
    assert "newest_attempt" not in receipt
    assert receipt["judged_step"] == 2
    assert [(s["step"], s["attempt"]) for s in live.get(f"/runs/{run_id}/steps")["items"]] == [(0, 1), (1, 1), (2, 1)]
    assert live.get(f"/runs/{run_id}")["last_step"] == 2


def test_a_stray_world_size_is_taken_back(live):
    """Steps that wait for ranks that never were are complete."""
    run_id = _step(live, 0)["run_id"]
    _step(live, 1, world_size=60_000)
    assert live.get(f"/runs/{run_id}")["last_step"] == 0
    _reset(live, run_id, world_size=1)
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 1)
    assert live.get(f"/runs/{run_id}")["world_size"] == 1


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"attempt": 7}, InvalidField, "one that the run has, such as 1"),
        ({"world_size": 0}, InvalidField, "at least 1"),
    ],
)
def test_a_reset_to_what_cannot_be_is_refused(live, fields, error, says):
    """With words, and nothing changes."""
    run_id = _step(live, 0)["run_id"]
    with pytest.raises(error, match=says):
        _reset(live, run_id, **fields)
    with pytest.raises(UnknownRun):
        _reset(live, "nobody")
    assert _step(live, 1)["judged_step"] == 1
