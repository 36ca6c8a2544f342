"""Alerts that fired and were resolved between two receipts, on both databases."""

import pytest

import trainer_hooks
from monitor_server.alerts.verdict import MOST_PASSED, PASSED_SECONDS
from monitor_server.settings import Settings
from tests.live import PATIENCE_SECONDS, eventually, serving
from trainer_hooks.actions import ActionPolicy

NAN = float("nan")


def _steps(first, *norms, attempt=1, run="r"):
    records = [{"step": step, "scalars": {"grad/norm": norm}} for step, norm in enumerate(norms, first)]
    return {"run": run, "attempt": attempt, "records": records}


@pytest.fixture
def live(start_collector, clock):
    """A collector with its own clock."""
    return start_collector(clock=clock)


def test_an_alert_that_opens_and_resolves_in_one_batch_stands_in_the_receipts(live, clock):
    """This happens after an outage, whose steps are sent together; the receipts do not list the alert for ever."""
    receipt = live.send(**_steps(0, 1.0, NAN, *[1.0] * 10))
    assert "alerts" not in receipt
    (passed,) = receipt["passed"]
    assert (passed["kind"], passed["opened_step"]) == ("non_finite", 1)
    assert live.send(**_steps(12, 1.0))["passed"] == [passed]
    clock.now += PASSED_SECONDS + 1
    assert "passed" not in live.send(**_steps(13, 1.0))


def test_a_later_attempt_is_told_nothing_of_it(live, clock):
    """It has left these weights behind."""
    live.send(**_steps(0, 1.0, NAN, *[1.0] * 10))
    clock.now += 1
    assert "passed" not in live.send(**_steps(0, *[1.0] * 13, attempt=2))


def test_an_alert_that_ended_because_the_run_went_back_has_not_passed(live):
    """The projector was behind: it opened after the new attempt had begun, at a step of the old one."""
    live.send(**_steps(0, *[1.0] * 5, NAN))
    assert "passed" not in live.send(**_steps(2, *[1.0] * 11, attempt=2))


@pytest.mark.parametrize("first", [5, 2])
def test_the_run_went_back_in_the_words_of_every_reader(live, first):
    """The new attempt repeats the step at which the alert opened, or one before it: receipt, API and report agree."""
    run_id = live.send(**_steps(0, *[1.0] * 5, NAN))["run_id"]
    assert "passed" not in live.send(**_steps(first, *[1.0] * 11, attempt=2))
    (alert,) = live.get(f"/runs/{run_id}/alerts")["items"]
    assert (alert["opened_step"], alert["resolved_step"], alert["is_taken_back"]) == (5, first, True)
    report = live.pool.request("GET", f"{live.url}/api/v1/alerts/{alert['id']}/incident").data.decode()
    assert f"resolved as the run went back to step {first}" in report


def test_a_restarted_collector_and_a_second_one_say_the_same(start_collector, clock):
    """They read it from the store."""
    first = start_collector(clock=clock)
    (passed,) = first.send(**_steps(0, 1.0, NAN, *[1.0] * 10))["passed"]
    ingesting = start_collector(clock=clock, role="ingest")
    assert eventually(lambda: ingesting.send(**_steps(12, 1.0)).get("passed")) == [passed]
    assert first.send(**_steps(13, 1.0))["passed"] == [passed]


def test_a_finding_that_never_fired_has_not_passed(start_collector, clock, scripted):
    """It was pending, and nobody is notified of it."""
    live = start_collector(clock=clock, pending_steps=2, engine=scripted)
    briefly, longer = ([{"step": first + each, "scalars": {"warn": float(each < held)}} for each in range(6)]
                       for first, held in ((0, 2), (6, 4)))  # fmt: skip
    receipt = live.send(run="r", records=briefly)
    assert receipt["judged_step"] == 5
    assert "passed" not in receipt
    assert [each["opened_step"] for each in live.send(run="r", records=longer)["passed"]] == [6]


def test_there_is_a_bound_on_what_a_receipt_repeats(live):
    """The newest ones count."""
    norms = [NAN, *[1.0] * 7] * (MOST_PASSED + 5)
    passed = live.send(**_steps(0, 1.0, *norms))["passed"]
    assert len(passed) == MOST_PASSED
    assert max(each["opened_step"] for each in passed) == len(norms) - 7


def test_a_trainer_is_told_once_and_does_not_act(database_url, unused_port, run_name, clock):
    """Its steps were on disk while the collector was away; a policy acts only on firing alerts."""
    settings = Settings(database_url=database_url, dashboard="", verdict_wait_seconds=PATIENCE_SECONDS)
    notices, policy = [], ActionPolicy({"critical": "stop"}, dry_run=False)
    with trainer_hooks.connect(
        f"http://127.0.0.1:{unused_port}", run=run_name, on_alert=notices.append, actions=policy
    ) as monitor:
        for step in range(12):
            monitor.log_step(step, {"grad/norm": NAN if step == 3 else 1.0})
        monitor.flush(0.2)
        with serving(settings, port=unused_port, clock=clock) as live:
            for step in range(12, 15):
                monitor.log_step(step, {"grad/norm": 1.0})
                assert monitor.flush(PATIENCE_SECONDS)
            firing = live.get("/alerts", state="firing")["items"]
    assert firing == []
    assert [(alert.kind, alert.opened_step) for alert in notices] == [("non_finite", 3)]
    assert monitor.policy.take_due() == []
