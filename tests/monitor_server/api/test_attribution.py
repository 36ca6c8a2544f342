"""An alert's attribution over the API."""

import pytest

from monitor_server.detection.suspects import first_steps
from tests.live import eventually
from tests.sampled_responses import array, response


@pytest.fixture
def explained(start_collector, scripted):
    """A collector with a run of 40 steps whose entropy rises from step 30 on and that is paged at 36."""
    live = start_collector(engine=scripted)
    right = {
        "group": 3,
        "displacement": -0.6,
        "displacements": array([-0.5, -0.1, 0.0], "float16"),
        "pieces": ["<think>", "so", " tool", "!"],
    }
    records = [
        {
            "step": step,
            "scalars": {"page": float(step == 36), "entropy/mean": 0.3 if step < 30 else 0.9, "grad/norm": 1.0},
            "responses": [
                response(**right),
                response(correct=False, reward=0.0, group=3, token_ids=array([7, 8, 9, 5], "int32")),
            ],
        }
        for step in range(40)
    ]
    live.send(run="r", records=records)
    (alert,) = eventually(lambda: live.get("/alerts")["items"])
    return live, alert


def test_an_alert_is_given_alone(explained):
    """The alert is read by its id, and equals the item of the list."""
    live, alert = explained
    assert live.get(f"/alerts/{alert['id']}") == alert


def test_an_alert_is_explained(explained):
    """It has the signals that moved, the leading response and token, the wrong rival, and the missing inputs."""
    live, alert = explained
    attribution = live.get(f"/alerts/{alert['id']}/attribution")
    assert [(m["signal"], m["direction"], m["onset"]) for m in attribution["moved"]] == [
        ("entropy/mean", "rise", [30, 31])
    ]
    assert attribution["measure"] == "displacement"
    by_id = {item["id"]: item for item in attribution["responses"]}
    first = by_id[attribution["displaced"][0]]
    assert (first["correct"], first["displacement"]) == (True, -0.6)
    assert (attribution["tokens"][0]["token_id"], attribution["tokens"][0]["text"]) == (7, "<think>")
    pair = attribution["resembling"][0]
    assert by_id[pair["response"]]["correct"] is False
    assert (pair["shared_prefix"], pair["prefix_share"]) == (3, 0.75)
    assert all(item["step"] <= alert["opened_step"] for item in attribution["responses"])
    assert "paired entropy change" in [gap["what"] for gap in attribution["not_observed"]]


def test_what_to_check_first_is_said_where_no_remedy_is_known(explained):
    """The kind that a test detector raises has no remedy; the incident report has the same sentence."""
    live, alert = explained
    attribution = live.get(f"/alerts/{alert['id']}/attribution")
    assert attribution["remedies"] == []
    assert attribution["first_steps"] == first_steps(alert["kind"])
    report = live.pool.request("GET", f"{live.url}/api/v1/alerts/{alert['id']}/incident").data.decode()
    assert f"To do first: {first_steps(alert['kind'])}" in report


def test_an_alert_is_explained_as_before_after_the_run_has_gone_back(explained):
    """The trainer goes back to step 25 and is healthy: the repeated steps do not explain the alert."""
    live, alert = explained
    before = live.get(f"/alerts/{alert['id']}/attribution")
    records = [
        {"step": step, "scalars": {"page": 0.0, "entropy/mean": 0.3}, "responses": [response(displacement=0.1)]}
        for step in range(25, 45)
    ]
    live.send(run="r", attempt=2, records=records)
    eventually(lambda: live.get(f"/runs/{alert['run_id']}")["last_step"] == 44)
    after = live.get(f"/alerts/{alert['id']}/attribution")
    assert after["moved"] == before["moved"]
    assert after == before


@pytest.mark.parametrize("stride", [1, 10, 512])
def test_the_rows_that_explain_an_alert_do_not_depend_on_the_distance_of_steps(start_collector, scripted, stride):
    """A trainer may record few of its steps or count samples, and may have gone on in a second attempt."""
    live = start_collector(engine=scripted)
    rows = [
        {"step": stride * row, "scalars": {"page": float(row == 290), "entropy/mean": 0.3 if row < 200 else 0.9}}
        for row in range(300)
    ]
    run_id = live.run(run="sparse", records=rows[:150])
    live.send(run="sparse", attempt=2, records=rows[150:])
    (alert,) = eventually(lambda: live.get(f"/runs/{run_id}/alerts")["items"])
    (moved,) = live.get(f"/alerts/{alert['id']}/attribution")["moved"]
    assert (moved["signal"], moved["onset"]) == ("entropy/mean", [stride * 200, stride * 201])


def test_an_unknown_alert_is_refused(collector):
    """Both routes answer 404."""
    for path in ("alerts/nobody", "alerts/nobody/attribution"):
        answer = collector.pool.request("GET", f"{collector.url}/api/v1/{path}")
        assert (answer.status, answer.json()["error"]) == (404, "UnknownAlert")
