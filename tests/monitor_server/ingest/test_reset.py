"""An operator removes the effects of a stray message on a run."""

import base64
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from monitor_server.commands.main import main
from monitor_server.detection.protocol import Phase
from tests.live import eventually
from trainer_hooks import wire


@pytest.fixture
def live(start_collector, scripted):
    return start_collector(engine=scripted)


def _ask(live, run_id, **fields):
    return live.pool.request("POST", f"{live.url}/api/v1/runs/{run_id}/reset", json=fields)


def _reset(live, run_id, **fields):
    answer = _ask(live, run_id, **fields)
    assert answer.status == 200, answer.data
    return answer.json()


def _step(live, step, **batch):
    return live.send(run="r", records=[{"step": step, "scalars": {"a": 1.0}}], **batch)


def test_a_stray_attempt_is_taken_back(live):
    """Its steps are removed, and detection and verdict continue with the attempt that trains."""
    run_id = _step(live, 0)["run_id"]
    _step(live, 900, attempt=10**12)
    assert _step(live, 1)["newest_attempt"] == 10**12
    assert [(one["attempt"], one["number"]) for one in live.get(f"/runs/{run_id}/attempts")["items"]] == [
        (1, 1),
        (2, 10**12),
    ]
    assert _reset(live, run_id, attempt=1)["attempt"] == 1
    receipt = _step(live, 2)
    assert "newest_attempt" not in receipt
    assert receipt["judged_step"] == 2
    assert [(s["step"], s["attempt"]) for s in live.get(f"/runs/{run_id}/steps")["items"]] == [(0, 1), (1, 1), (2, 1)]
    assert live.get(f"/runs/{run_id}")["last_step"] == 2


def test_the_small_curve_of_a_run_is_that_of_the_attempt_that_stays(live):
    """Its newest 64 rewards are in the list of runs at once, and not when the next step comes."""
    rewards = [0.25 * step for step in range(100)]
    records = [{"step": step, "scalars": {"reward/mean": reward}} for step, reward in enumerate(rewards)]
    run_id = live.run(run="r", records=records)
    live.run(run="r", attempt=2, records=[{"step": 50, "scalars": {"reward/mean": 900.0}}])
    _reset(live, run_id, attempt=1)
    eventually(lambda: live.get(f"/runs/{run_id}")["sparkline"]["values"] == rewards[-64:])


def test_a_stray_world_size_is_taken_back(live):
    """Steps that waited for ranks that never existed become complete."""
    run_id = _step(live, 0)["run_id"]
    _step(live, 1, world_size=60_000)
    assert live.get(f"/runs/{run_id}")["last_step"] == 0
    _reset(live, run_id, world_size=1)
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 1)
    assert live.get(f"/runs/{run_id}")["world_size"] == 1


def test_a_run_is_reset_on_the_command_line(live, capsys):
    """The answer shows the attempt and the number of ranks that the run has now."""
    run_id = _step(live, 0)["run_id"]
    _step(live, 900, attempt=10**12, world_size=60_000)
    command = ["runs", "--url", live.url, "--reset", run_id, "--attempt", "1", "--world-size", "2"]
    assert main(command) == 0
    assert capsys.readouterr().out == "r: attempt 1, world size 2\n"
    assert main(["runs", "--url", live.url, "--attempt", "1"]) == 1
    assert "need --reset ID" in capsys.readouterr().err
    assert main(["runs", "--url", live.url, "--reset", "nobody/../../alerts"]) == 1
    assert "404" in capsys.readouterr().err


def test_a_number_that_is_used_again_begins_anew(live):
    """Remembered state of the removed attempt does not refuse the records of a new one with its number."""
    run_id = _step(live, 0)["run_id"]

    def send(bins):
        counts = {"dtype": "int64", "shape": [bins], "data": base64.b64encode(bytes(8 * bins)).decode()}
        summary = {"type": "histogram", "low": 0.0, "high": 1.0, "quantile": 0.5, "counts": counts}
        return live.send(run="r", attempt=2, records=[{"step": 1, "summaries": {"a": summary}}])

    assert send(4)["accepted"] == 1
    _reset(live, run_id, attempt=1)
    assert send(8)["accepted"] == 1


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"attempt": 7}, "attempt must be one that the run has, 1 to 1, got 7"),
        ({"attempt": 0}, "attempt"),
        ({"attempt": "first"}, "attempt"),
        ({"attempt": True}, "attempt"),
        ({"attempt": "1"}, "attempt"),
        ({"world_size": 0}, "world_size"),
        ({"world_size": 1.0}, "world_size"),
        ({"world_size": 70_000}, "RLVITALS_MAX_WORLD_SIZE"),
        ({"colour": 1}, "colour"),
    ],
)
def test_a_reset_to_what_cannot_be_is_refused(live, fields, says):
    """Each is a located 422, and nothing changes."""
    run_id = _step(live, 0)["run_id"]
    answer = _ask(live, run_id, **fields)
    assert (answer.status, answer.json()["error"]) == (422, "InvalidField")
    assert says in answer.json()["detail"]
    assert _ask(live, "nobody").status == 404
    assert _step(live, 1)["judged_step"] == 1


def test_what_was_done_in_a_removed_attempt_is_removed_with_it(live):
    """Its reported actions and its acknowledgements are in no answer, nor in the answers for a new attempt."""
    run_id = _step(live, 0)["run_id"]
    action = {"action": "notify", "alert_id": "a", "outcome": "taken", "reason": "r"}
    record = {"step": 1, "scalars": {"warn": 1.0}, "actions": [action]}
    live.send(run="r", attempt=2, schema_version=2, records=[record])
    (alert,) = live.get(f"/runs/{run_id}/alerts")["items"]
    assert live.pool.request("POST", f"{live.url}/api/v1/alerts/{alert['id']}/ack", json={}).status == 200
    given = ("actions", "acknowledgements")
    eventually(lambda: all(live.get(f"/runs/{run_id}/{each}")["items"] for each in given))
    _reset(live, run_id, attempt=1)
    assert [live.get(f"/runs/{run_id}/{each}")["items"] for each in given] == [[], []]
    assert live.pool.request("GET", f"{live.url}/api/v1/alerts/{alert['id']}/incident").status == 200
    _step(live, 1, attempt=2)
    assert [live.get(f"/runs/{run_id}/{each}")["items"] for each in given] == [[], []]


def test_the_phases_of_a_removed_attempt_are_removed_with_it(live):
    """The attempt that trains goes through its own, also at a step at which the other's began."""
    run_id = _step(live, 0)["run_id"]

    def step(number, phase, attempt=1):
        scalars = {"phase": float(list(Phase).index(phase))}
        live.send(run="r", attempt=attempt, records=[{"step": number, "scalars": scalars}])

    step(1, Phase.HEALTHY)
    step(2, Phase.DECAY, attempt=2)
    step(5, Phase.COLLAPSED, attempt=2)
    assert _reset(live, run_id, attempt=1)["phase"] == "unknown"
    assert live.get(f"/runs/{run_id}/phases")["items"] == [{"phase": "healthy", "from_step": 0, "to_step": 1}]
    for number in range(2, 5):
        step(number, Phase.HEALTHY)
    step(5, Phase.DECAY)
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 5)
    assert live.get(f"/runs/{run_id}/phases")["items"] == [
        {"phase": "healthy", "from_step": 0, "to_step": 4},
        {"phase": "decay", "from_step": 5, "to_step": None},
    ]


def test_a_reset_does_not_believe_a_stray_step_of_the_attempt_that_stays(live):
    """The newest step is one that the trainer has made, so the run does not count as stalled."""
    run_id = live.run(run="r", records=[{"step": step, "scalars": {"a": 1.0}} for step in range(20)])
    for step in (10**9, 20):
        _step(live, step)
    _step(live, 40, attempt=2)
    _reset(live, run_id, attempt=1)
    _step(live, 21)
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 21)


def test_batches_that_are_committed_together_with_a_reset_are_stored(live):
    """Each batch that was acknowledged is in the log, of the run that is reset and of another one."""
    writer, has_begun, is_free = live.app.state.collector.writer, threading.Event(), threading.Event()
    other, reset = sorted(("r", "other"), key=lambda name: wire.run_id("default", name))  # the order of a commit

    def send(name, step):
        return live.send(run=name, records=[{"step": step, "scalars": {"a": 1.0}}])

    for name in (other, reset):
        send(name, 0)
    with ThreadPoolExecutor() as clients:
        writer.submit("", lambda _: has_begun.set() or is_free.wait(60))
        assert has_begun.wait(60)
        asked = []
        for ask in (
            lambda: send(other, 1),
            lambda: send(reset, 1),
            lambda: _reset(live, wire.run_id("default", reset)),
        ):
            asked.append(clients.submit(ask))
            eventually(lambda: writer.waiting == len(asked))
        is_free.set()
    assert [each.result()["accepted"] for each in asked[:2]] == [1, 1]
    assert asked[2].result()["attempt"] == 1
    with live.app.state.collector.store.read() as repositories:
        for name in (other, reset):
            found, _ = repositories.records.after(wire.run_id("default", name), 0, limit=9, max_bytes=10**9)
            assert [record.step for record in found] == [0, 1]
    send(reset, 2)
    assert live.app.state.collector.log.caches["log_shared_runs"]() == 0  # no other collector was suspected
