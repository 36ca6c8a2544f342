"""What trainers did about alerts: reported with a record, stored once, read back with the reason."""

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
    assert newest | {"time": 0} == refused | {"attempt": 1, "step": 5, "rank": 0, "time": 0}
    assert oldest | {"time": 0} == REPORT | {"detail": "", "attempt": 1, "step": 4, "rank": 0, "time": 0}


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
