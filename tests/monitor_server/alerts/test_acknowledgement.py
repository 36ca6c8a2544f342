"""An acknowledgement of an alert: stored, passed to detection in its place, and enough to end a lost run."""

import json

import pytest

from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Acknowledgement, Observation
from tests.live import eventually
from tests.monitor_server.detection.spirals import spiral


@pytest.fixture
def live(start_collector, scripted, clock):
    return start_collector(
        engine=scripted,
        clock=clock,
        stall_minimum_seconds=100,
        stall_factor=5,
        lost_factor=10,
        lost_expiry_seconds=5000,
    )


def acknowledge(live, alert, **body):
    path = f"{live.url}/api/v1/alerts/{alert['id']}/ack"
    return live.pool.request("POST", path, body=json.dumps(body).encode(), headers={"Content-Type": "application/json"})


def step(live, number, **signals):
    return live.send(run="r", records=[{"step": number, "scalars": signals}])


def firing(live):
    return {alert["kind"]: alert for alert in live.get("/alerts", state="firing")["items"]}


def shown(live, run_id):
    """Return a run's status, and whether Prometheus has it."""
    metrics = live.pool.request("GET", f"{live.url}/metrics").data.decode()
    return live.get(f"/runs/{run_id}")["status"], 'run="r"' in metrics


def test_who_knows_of_an_alert_is_kept_with_it(live, clock):
    """The alert fires while it is found, and shows who acknowledged it, when, and with which note."""
    step(live, 1, warn=1.0)
    acknowledged = acknowledge(live, firing(live)["scripted"], by="ann", note="on it").json()
    assert (acknowledged["state"], acknowledged["acknowledged_by"], acknowledged["note"]) == ("firing", "ann", "on it")
    assert acknowledged["acknowledged_at"] == clock.now
    step(live, 2, warn=1.0)
    assert firing(live)["scripted"]["acknowledged_by"] == "ann"
    step(live, 3, warn=0.0)
    assert live.get("/alerts")["items"][0]["acknowledged_by"] == "ann"


def test_a_graver_alert_has_to_be_acknowledged_anew(live):
    """An acknowledged warning that becomes critical is no longer acknowledged."""
    step(live, 1, warn=1.0)
    acknowledge(live, firing(live)["scripted"], by="ann")
    step(live, 2, page=1.0)
    assert firing(live)["scripted"]["acknowledged_by"] is None


def test_detection_hears_it_after_the_newest_step_and_it_is_journaled_there(live):
    """In the order of the steps, also when the alert is acknowledged twice."""
    run_id = step(live, 1, warn=1.0)["run_id"]
    step(live, 2, warn=1.0)
    acknowledge(live, firing(live)["scripted"], by="ann")
    step(live, 3, page=1.0)
    assert firing(live)["scripted"]["evidence"]["seen"] == [[1, 1], [1, 2], [1, 2, "scripted"], [1, 3]]
    (word,) = live.get(f"/runs/{run_id}/acknowledgements")["items"]
    assert (word["kind"], word["attempt"], word["step"], word["by"]) == ("scripted", 1, 2, "ann")


def test_an_acknowledgement_of_an_alert_that_is_over_does_not_concern_the_one_that_opened_after_it(live):
    """The run went back, and the new finding is another alert, which the author of the acknowledgement has not seen."""
    run_id = step(live, 2, page=1.0)["run_id"]
    left_behind = firing(live)["scripted"]
    live.send(run="r", attempt=2, records=[{"step": 1, "scalars": {"page": 1.0}}])
    assert acknowledge(live, left_behind, by="ann").status == 200
    live.send(run="r", attempt=2, records=[{"step": 2, "scalars": {"page": 1.0}}])
    again = firing(live)["scripted"]
    assert (again["opened_step"], again["acknowledged_by"], again["reopened_from"]) == (1, None, left_behind["id"])
    assert live.get(f"/runs/{run_id}/acknowledgements")["items"] == []  # detection has received none


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("nobody/ack", b"{}", 404, "UnknownAlert"),
        ("nobody/ack", b"", 404, "UnknownAlert"),
        ("nobody/ack", b'{"by": ""}', 422, "InvalidField"),
        ("nobody/ack", b'{"colour": 1}', 422, "InvalidField"),
        ("nobody/ack", b'{"note": "' + b"x" * 3000 + b'"}', 422, "InvalidField"),
    ],
)
def test_what_cannot_be_acknowledged_is_refused(sqlite_collector, path, body, status, error):
    """In the one error shape."""
    answer = sqlite_collector.pool.request(
        "POST", f"{sqlite_collector.url}/api/v1/alerts/{path}", body=body, headers={"Content-Type": "application/json"}
    )
    assert (answer.status, answer.json()["error"]) == (status, error)


def test_a_lost_run_that_is_acknowledged_is_given_up_until_it_is_heard(live, clock):
    """Both alerts of silence resolve, it counts as stopped and leaves the metrics; a sign of life brings it back."""
    run_id = step(live, 1, a=1.0)["run_id"]
    clock.now += 1001
    eventually(lambda: "trainer_lost" in firing(live))
    assert shown(live, run_id) == ("lost", True)
    assert acknowledge(live, firing(live)["trainer_lost"], by="ann").json()["state"] == "resolved"
    assert firing(live) == {}
    assert shown(live, run_id) == ("stopped", False)
    clock.now += 10_000
    assert shown(live, run_id) == ("stopped", False)
    step(live, 2, a=1.0)
    assert shown(live, run_id) == ("running", True)


def test_a_stalled_run_is_not_given_up_by_acknowledging_it(live, clock):
    """Its trainer exists and may go on: the alert stays, and a person has seen it."""
    run_id = step(live, 1, a=1.0)["run_id"]
    clock.now += 101
    eventually(lambda: "telemetry_stale" in firing(live))
    assert acknowledge(live, firing(live)["telemetry_stale"]).json()["state"] == "firing"
    assert live.get(f"/runs/{run_id}")["status"] == "stalled"


def test_a_lost_run_that_nobody_looks_at_expires(live, clock):
    """5,000 s after its last batch the run counts as stopped, and its alerts end."""
    run_id = step(live, 1, a=1.0)["run_id"]
    clock.now += 4999
    eventually(lambda: "trainer_lost" in firing(live))
    clock.now += 2
    eventually(lambda: not firing(live))
    assert live.get(f"/runs/{run_id}")["status"] == "stopped"
    step(live, 2, a=1.0)
    assert live.get(f"/runs/{run_id}")["status"] == "running"


def test_a_critical_alert_that_is_only_held_ends_with_an_acknowledgement_and_a_replay_agrees(start_collector):
    """A live engine with an acknowledgement between its steps is compared with a replay from the API's answers."""
    live = start_collector()
    run = [*spiral(rows=118), *(o for o in spiral(rows=148, drift_at=999, surge_at=999) if o.step >= 118)]
    records = [{"step": observation.step, "scalars": dict(observation.signals)} for observation in run]
    live.send(run="r", records=records[:136])
    acknowledge(live, firing(live)["death_spiral"], by="ann")
    run_id = live.run(run="r", records=records[136:])
    alerts = [a for a in live.get(f"/runs/{run_id}/alerts")["items"] if a["kind"] == "death_spiral"]
    assert alerts[-1]["resolved_step"] == 136
    acknowledgements = live.get(f"/runs/{run_id}/acknowledgements")["items"]
    engine, phases = Engine(), []
    for item in live.get(f"/runs/{run_id}/steps", limit=1000)["items"]:
        phases.append((item["step"], engine.update(Observation(step=item["step"], signals=item["signals"])).phase))
        for given in acknowledgements:
            if (given["attempt"], given["step"]) == (item["attempt"], item["step"]):
                engine.acknowledge(Acknowledgement(kind=given["kind"], attempt=given["attempt"], step=given["step"]))
    held = live.get(f"/runs/{run_id}/phases")["items"]
    shown_phases = {
        number: span["phase"] for span in held for number in range(span["from_step"], (span["to_step"] or 147) + 1)
    }
    assert shown_phases == dict(phases)
