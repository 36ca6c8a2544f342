"""The three roles on one database: what one stores, the second detects and the third shows."""

import itertools
import json

import pytest

from tests.live import eventually


@pytest.fixture
def roles(start_collector, scripted):
    """One collector of each role."""
    return {role: start_collector(engine=scripted, role=role) for role in ("ingest", "projector", "web")}


def test_a_step_goes_from_ingest_over_the_projector_to_a_reader(roles):
    """The receipt has the newest verdict that is known, which is that on the step before."""
    step = {"step": 0, "scalars": {"a": 1.0, "warn": 1.0}}
    run_id = roles["ingest"].send(run="r", records=[step])["run_id"]
    eventually(lambda: roles["web"].get(f"/runs/{run_id}")["last_step"] == 0)
    steps = itertools.count(1)
    eventually(lambda: "judged_step" in roles["ingest"].send(run="r", records=[step | {"step": next(steps)}]))
    receipt = roles["ingest"].send(run="r", records=[step | {"step": next(steps)}])
    assert receipt["judged_step"] < next(steps)
    assert [alert["kind"] for alert in receipt["alerts"]] == ["scripted"]


@pytest.mark.parametrize(
    ("role", "method", "path"), [("web", "POST", "/ingest"), ("ingest", "GET", "/runs"), ("projector", "GET", "/runs")]
)
def test_a_role_serves_its_own_routes_alone(roles, role, method, path):
    """The others are unknown there; health is served everywhere."""
    live = roles[role]
    body = {"body": b"{}", "headers": {"Content-Type": "application/json"}} if method == "POST" else {}
    answer = live.pool.request(method, f"{live.url}/api/v1{path}", **body)
    assert (answer.status, json.loads(answer.data)["error"]) == (404, "UnknownPath")
    assert live.pool.request("GET", f"{live.url}/readyz").status == 200
