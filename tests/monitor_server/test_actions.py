"""The actions of trainers on alerts: reported with a record, stored once, read back with the reason."""

import pytest

from tests.live import listening

REPORT = {
    "action": "stop",
    "alert_id": "a1",
    "outcome": "taken",
    "reason": "critical drift, open since step 3: it falls",
}


def record(step, *actions):
    """A record that reports actions."""
    return {"step": step, "scalars": {"x": 1.0}, "actions": list(actions)}


def test_an_action_is_read_back_with_its_reason_and_counted_once(collector, run_name):
    """A record that is sent twice counts once; the newest comes first, page by page."""
    refused = REPORT | {"action": "checkpoint", "outcome": "refused", "detail": "only 1 of 2 ranks heard"}
    batch = {"run": run_name, "world_size": 2, "attempt": 7, "records": [record(4, REPORT), record(5, refused)]}
    run_id = collector.run(**batch)
    assert collector.send(**batch)["duplicates"] == 2
    first = collector.get(f"/runs/{run_id}/actions", limit=1)
    (newest,) = first["items"]
    (oldest,) = collector.get(f"/runs/{run_id}/actions", limit=1, cursor=first["next"])["items"]
    assert newest | {"time": 0} == refused | {"attempt": 1, "step": 5, "rank": 0, "time": 0, "forks": []}
    assert oldest | {"time": 0} == REPORT | {"detail": "", "attempt": 1, "step": 4, "rank": 0, "time": 0, "forks": []}


FORK = {
    "name": "half-rate",
    "steps": 30,
    "is_winner": True,
    "has_diverged": False,
    "reward": 0.5,
    "reward_gain": [0.1, 0.2, 0.3],
    "displacement": "NaN",
    "displacement_gain": ["-Infinity", "NaN", "Infinity"],
    "entropy": 0.25,
}


def test_forks_are_read_back_as_they_were_measured(collector, run_name):
    """This includes numbers that are not finite; values that a trainer leaves out are not observed."""
    report = REPORT | {"action": "fork", "forks": [FORK, {"name": "kl", "steps": 2, "has_diverged": True}]}
    run_id = collector.run(run=run_name, records=[record(4, report)])
    (kept,) = collector.get(f"/runs/{run_id}/actions")["items"]
    assert kept["forks"][0] == FORK
    assert kept["forks"][1]["reward"] == "NaN"
    assert kept["forks"][1]["reward_gain"] == ["-Infinity", "NaN", "Infinity"]


@pytest.mark.parametrize("forks", [[FORK] * 17, [FORK | {"name": ""}], [FORK | {"steps": -1}], [{"name": "kl"}]])
def test_forks_that_cannot_be_cost_their_record_alone(collector, run_name, forks):
    """More than 16, no name, steps below 0, or none."""
    refused = record(1, REPORT | {"action": "fork", "forks": forks})
    receipt = collector.send(run=run_name, records=[refused, record(2, REPORT)])
    assert receipt["accepted"] == 1
    assert [rejection["index"] for rejection in receipt["rejected"]] == [0]


def test_an_action_is_pushed_once_it_is_kept(start_collector):
    """A subscriber receives it, and can then read it from the API."""
    live = start_collector()
    with listening(live) as events:
        run_id = live.run(run="r", attempt=7, records=[record(4, REPORT)])
        pushed = next(data for kind, data in events if kind == "action")
    (kept,) = live.get(f"/runs/{run_id}/actions")["items"]
    assert pushed == kept | {"run_id": run_id}


@pytest.mark.parametrize(
    ("field", "value"), [("action", "panic"), ("outcome", "perhaps"), ("alert_id", ""), ("reason", "x" * 5000)]
)
def test_a_report_that_cannot_be_costs_its_record_alone(collector, run_name, field, value):
    """The record is refused by name; the next one is stored."""
    receipt = collector.send(run=run_name, records=[record(1, REPORT | {field: value}), record(2, REPORT)])
    assert receipt["accepted"] == 1
    assert [rejection["index"] for rejection in receipt["rejected"]] == [0]


def test_actions_of_an_unknown_run_are_unknown(collector):
    """The answer is 404."""
    assert collector.pool.request("GET", f"{collector.url}/api/v1/runs/nothing/actions").status == 404
