"""The events of a run at its steps: attempts, rewinds, actions, acknowledgements and comments."""

import pytest

from monitor_server.api.schemas.marks import attempt_marks
from monitor_server.store.repositories.attempts import AttemptSpan
from tests.live import eventually


def span(first, last, *, has_config=False, change=None):
    """Return an attempt with its first and last step."""
    return AttemptSpan(first_seen=1.7e9, has_config=has_config, config_change=change, first_step=first, last_step=last)


def test_an_attempt_that_begins_earlier_than_the_last_step_is_a_rewind():
    """The first attempt has no mark; one without a step has none either."""
    spans = [span(0, 50), span(40, 60, has_config=True), span(None, None), span(61, 70)]
    assert [(mark.kind, mark.step, mark.text) for mark in attempt_marks(spans)] == [
        ("rewind", 40, "attempt 2 went back from step 50 to step 40, with a configuration"),
        ("attempt", 61, "attempt 4 went on"),
    ]


def test_a_configuration_that_an_attempt_has_changed_is_named_at_its_mark(collector):
    """The rate and the new setting in words; an attempt with an equal configuration says so."""
    for attempt, config in enumerate(
        [{"lr": 1e-6}, {"lr": 5e-7, "kl": {"beta": 0.04}}, {"kl": {"beta": 0.04}, "lr": 5e-7}], 1
    ):
        records = [{"step": 2 * attempt + more, "scalars": {"a": 1.0}} for more in range(2)]
        run_id = collector.run(run="tuned", attempt=attempt, config=config, records=records)
    eventually(lambda: collector.get(f"/runs/{run_id}")["last_step"] == 7)
    assert [item["text"] for item in collector.get(f"/runs/{run_id}/marks")["items"]] == [
        "attempt 2 went on; configuration: kl.beta added as 0.04, lr from 1e-06 to 5e-07",
        "attempt 3 went on, with the same configuration",
    ]


@pytest.fixture
def paged(start_collector, scripted):
    """A collector with a run that is paged at step 3, rolls back to step 2, and goes on to step 5; and its alert."""
    live = start_collector(engine=scripted)
    records = [{"step": step, "scalars": {"page": float(step == 3)}} for step in range(4)]
    live.send(run="marked", records=records)
    (alert,) = eventually(lambda: live.get("/alerts")["items"])
    done = {"action": "rollback", "outcome": "taken", "alert_id": alert["id"], "reason": "the page", "detail": ""}
    again = [{"step": step, "scalars": {"page": 0.0}} for step in range(2, 6)]
    live.send(run="marked", attempt=2, records=[again[0] | {"actions": [done]}, *again[1:]])
    eventually(lambda: live.get(f"/runs/{alert['run_id']}")["last_step"] == 5)
    return live, alert


def test_the_marks_of_a_run_stand_at_their_steps(paged):
    """The rewind and the rollback at step 2; a comment at the newest step, 5, with its author."""
    live, alert = paged
    path = f"{live.url}/api/v1/alerts/{alert['id']}/comments"
    answer = live.pool.request("POST", path, json={"by": "ana", "text": "halved the rate"})
    assert answer.json()["step"] == 5
    items = live.get(f"/runs/{alert['run_id']}/marks")["items"]
    assert {(item["kind"], item["step"], item["by"]) for item in items} == {
        ("action", 2, None),
        ("rewind", 2, None),
        ("comment", 5, "ana"),
    }
    assert {item["text"] for item in items} == {
        "rollback, taken: the page",
        "attempt 2 went back from step 3 to step 2",
        "scripted: halved the rate",
    }


def test_an_acknowledgement_stands_at_the_step_that_detection_had_seen(paged):
    """The mark has the note and the author."""
    live, alert = paged
    answer = live.pool.request(
        "POST", f"{live.url}/api/v1/alerts/{alert['id']}/ack", json={"by": "ben", "note": "seen"}
    )
    assert answer.status == 200
    (mark,) = eventually(
        lambda: [
            item for item in live.get(f"/runs/{alert['run_id']}/marks")["items"] if item["kind"] == "acknowledgement"
        ]
    )
    assert (mark["text"], mark["by"], mark["step"]) == ("scripted acknowledged: seen", "ben", 5)
