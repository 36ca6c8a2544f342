"""Requests of people to trainers: each reaches the trainer once, is answered, and has its outcome recorded."""

import itertools
import time
from dataclasses import replace

import pytest

from monitor_server.action_requests.outcomes import RequestOutcomes
from monitor_server.action_requests.requesting import ANSWER_SECONDS, REQUEST_SECONDS
from monitor_server.durations import DAY_SECONDS
from tests.databases import sqlite_only
from tests.live import PATIENCE_SECONDS, eventually
from tests.monitor_server.action_requests.conftest import Asked
from tests.store_connections import noted_statements
from trainer_hooks.actions import ActionPolicy
from trainer_hooks.ranks.coordinators import SingleProcessCoordinator


def answer(request, outcome, detail=""):
    """A record's report about a request."""
    return {
        "action": request["action"], "alert_id": request["alert"]["id"], "outcome": outcome, "reason": "asked",
        "detail": detail, "request_id": request["id"],
    }  # fmt: skip


def trained(training, asked, **options):
    """A trainer whose steps make the alert fire, until the test ends the trainer."""
    found = asked()
    monitor = training(found.live, **options)
    monitor.begin_acting()
    steps = itertools.count()

    def make_step(*actions):
        monitor.log_step(next(steps), {"page": 1.0, "reward/mean": 0.25}, actions=actions)
        monitor.flush(PATIENCE_SECONDS)

    make_step()
    (alert,) = eventually(lambda: [each for each in found.live.get("/alerts")["items"] if each["run"] == "trained"])
    return Asked(found.live, alert["id"]), make_step, monitor


@sqlite_only
def test_a_trainer_that_was_not_set_up_for_requests_refuses_and_says_so(training, asked):
    """It is asked and changes nothing; the alert and the log state why."""
    found, make_step, _ = trained(training, asked)
    assert found.ask(note="it burns money").status == 200
    (request,) = found.requests()
    assert (request["state"], request["requested_by"], request["note"]) == ("requested", "anna", "it burns money")

    def is_refused():
        make_step()
        return found.requests()[0]["state"] == "refused"

    eventually(is_refused)
    assert "ActionPolicy(requests=...)" in found.requests()[0]["detail"]
    assert [change for change, _, _ in found.history()] == ["action_requested", "action_refused"]
    (run,) = [each for each in found.live.get("/runs")["items"] if each["name"] == "trained"]
    assert run["status"] == "running"


@pytest.mark.parametrize("requests", [[], ["rollback"]], ids=["none", "another"])
@sqlite_only
def test_a_policy_takes_only_the_requests_that_it_names(training, asked, requests):
    """Rules for alerts are no permission for people."""
    policy = ActionPolicy({"warning": "checkpoint"}, dry_run=False, requests=requests)
    found, make_step, monitor = trained(training, asked, actions=policy)
    assert found.ask("stop").status == 200

    def is_refused():
        make_step()
        return found.requests()[0]["state"] == "refused"

    eventually(is_refused)
    assert "takes no request for 'stop'" in found.requests()[0]["detail"]
    assert "stop" not in [decision.action for decision in monitor.policy.take_due()]


def test_a_trainer_that_takes_requests_decides_once(training, asked):
    """Receipts repeat the request until it is answered; there is one decision, and it has the key of the request."""
    policy = ActionPolicy({}, dry_run=False, requests=["stop"])
    found, make_step, monitor = trained(training, asked, actions=policy)
    (request_id,) = [found.ask("stop").json()["id"]]

    def is_received():
        make_step()
        return found.requests()[0]["state"] == "received"

    eventually(is_received)
    for _ in range(5):
        make_step()
    (decision,) = monitor.policy.take_due()
    assert (decision.action, decision.key) == ("stop", f"request {request_id}/stop")
    assert decision.reason.startswith("requested by anna: critical scripted")
    assert [change for change, _, _ in found.history()] == ["action_requested", "action_received"]


def test_what_a_trainer_reports_is_on_the_alert_and_so_is_what_came_of_it(asked):
    """Twenty steps later reward and phase of before and after are there, once, and in the audit log who asked."""
    found = asked()
    for step in range(1, 25):
        found.step(step)
    assert found.ask("rollback").status == 200
    (request,) = found.step(25)
    report = [answer(request, "received"), answer(request, "taken", "went back to step 10")]
    record = {"step": 0, "actions": report}
    found.live.run(run="other", schema_version=3, records=[record])  # it has learnt the id; nobody has asked it
    assert found.requests()[0]["state"] == "requested"
    assert found.step(26, schema_version=3, record={"actions": report}) is not None
    eventually(lambda: found.requests()[0]["state"] == "done")
    assert found.step(27) == []
    assert found.requests()[0]["step"] == 26
    found.live.send(
        run="r", attempt=2, records=[{"step": step, "scalars": {"reward/mean": 0.75}} for step in range(11, 32)]
    )
    eventually(lambda: found.history()[-1][0] == "action_followed")
    changes = ["action_requested", "action_received", "action_done", "action_followed"]
    assert [change for change, _, _ in found.history()] == changes
    followed = found.history()[-1][2]
    assert "a mean reward of 0.5 before" in followed
    assert "a mean reward of 0.75 in steps 11 to 30 after" in followed
    assert ("run.rollback", "anna") in [(each["action"], each["by"]) for each in found.live.get("/audit")["items"]]


def test_a_stop_is_followed_by_the_end_of_the_run(asked):
    """No step followed, and that is written."""
    found = asked()
    found.ask("stop")
    (request,) = found.step(1)
    found.step(2, schema_version=3, record={"actions": [answer(request, "taken")]}, end="stopped")
    eventually(lambda: found.history()[-1][0] == "action_followed")
    assert "the run is stopped, and no step followed" in found.history()[-1][2]


def test_several_collectors_deliver_one_request_and_take_one_answer(asked, start_collector, scripted):
    """Each carries it until it is answered; a replayed answer changes nothing."""
    found = asked()
    others = [Asked(start_collector(engine=scripted), found.alert_id) for _ in range(2)]
    found.ask("stop")
    steps = itertools.count(1)
    seen = set()
    for each in (found, *others):
        seen.add(eventually(lambda each=each: each.step(next(steps)))[0]["id"])
    assert len(seen) == 1
    (request,) = found.step(next(steps))
    last = next(steps)
    for each in (found, *others):
        each.step(last, schema_version=3, record={"actions": [answer(request, "taken")], "seq": 10**9})
    eventually(lambda: found.requests()[0]["state"] == "done")
    assert [change for change, _, _ in found.history()].count("action_done") == 1
    eventually(lambda: not others[0].step(next(steps)))


def test_a_trainer_that_was_started_again_is_not_asked(asked):
    """Neither a new attempt nor another process of the same attempt is asked: a person meant the running one."""
    found = asked()
    found.ask("stop")
    assert found.step(2, attempt=2) == []
    assert found.step(1) == []
    found.ask("rollback")
    found.live.send(run="r", attempt=2, config={})
    assert found.ask("checkpoint").status == 200
    found.live.send(run="r", attempt=2, config={})
    assert found.step(3, attempt=2) == []
    assert {each["state"] for each in found.requests()} == {"expired"}
    ends = {each["action"]: each["detail"] for each in found.requests()}
    assert "the run went back" in ends.pop("stop")
    assert all("started again" in detail for detail in ends.values())


@sqlite_only
def test_a_request_that_nobody_answers_ends(asked):
    """After ten minutes; a late answer counts, because it is true."""
    found = asked()
    found.ask("stop")
    (request,) = found.step(1)
    collector = found.live.app.state.collector
    with collector.store.write() as repositories:
        stored = repositories.action_requests.find(request["id"])
        assert stored.expires_at - stored.requested_at == REQUEST_SECONDS
        late = {name: getattr(stored, name) for name in stored.__slots__} | {"expires_at": collector.clock() - 1.0}
        repositories.action_requests.advance(type(stored)(**late), states=["requested"])
    eventually(lambda: found.requests()[0]["state"] == "expired")
    assert found.step(2) == []
    found.step(3, schema_version=3, record={"actions": [answer(request, "taken")]})
    eventually(lambda: found.requests()[0]["state"] == "done")


def shift_request(asked, request_id, seconds):
    """Let a request be older than it is."""
    with asked.live.app.state.collector.store.write() as repositories:
        stored = repositories.action_requests.find(request_id)
        moved = replace(stored, requested_at=stored.requested_at - seconds, expires_at=stored.expires_at - seconds)
        assert repositories.action_requests.advance(moved, states=[stored.state])


@sqlite_only
def test_a_receipt_states_the_seconds_that_are_left(asked):
    """The trainer counts them on its own clock, so the clocks of the two machines may differ."""
    found = asked()
    found.ask("stop")
    (request,) = found.step(1)
    assert 0.0 < request["seconds_left"] <= REQUEST_SECONDS
    shift_request(found, request["id"], 500.0)
    (again,) = found.step(2)
    assert 0.0 < again["seconds_left"] <= REQUEST_SECONDS - 500.0
    shift_request(found, request["id"], -1_000.0)
    (ahead,) = found.step(3)  # the clock of the collector that was asked was ahead of this one's
    assert ahead["seconds_left"] == REQUEST_SECONDS


@sqlite_only
def test_a_request_that_the_trainer_has_received_keeps_its_place_until_it_is_answered(asked):
    """Nobody can make a second request that would be carried out as well; after a bound the place is free."""
    found = asked()
    found.ask("rollback")
    (request,) = found.step(1)
    found.step(2, schema_version=3, record={"actions": [answer(request, "received")]})
    eventually(lambda: found.requests()[0]["state"] == "received")
    shift_request(found, request["id"], REQUEST_SECONDS)
    collector = found.live.app.state.collector
    RequestOutcomes(collector.store, clock=collector.clock, deadlines=collector.settings.deadlines).tick()
    assert found.requests()[0]["state"] == "received"
    assert found.step(3) == []  # too late to hand it out
    assert found.ask("rollback").status == 409
    shift_request(found, request["id"], ANSWER_SECONDS)
    eventually(lambda: found.requests()[0]["state"] == "expired")
    assert "not known whether" in found.requests()[0]["detail"]
    assert found.ask("rollback").status == 200


def test_a_tick_asks_one_question_of_the_database_while_no_request_is_unfinished(asked):
    """A request is unfinished until it is refused or expired, or until its outcome is recorded."""
    found = asked()
    collector = found.live.app.state.collector
    outcomes = RequestOutcomes(collector.store, clock=collector.clock, deadlines=collector.settings.deadlines)

    def questions_of_a_tick():
        with noted_statements() as statements:
            outcomes.tick()
        return sum("action_requests" in statement for statement, _ in statements)

    assert questions_of_a_tick() == 1
    found.ask("stop")
    assert questions_of_a_tick() > 1
    (request,) = found.step(1)
    found.step(2, schema_version=3, record={"actions": [answer(request, "received")]})
    eventually(lambda: found.requests()[0]["state"] == "received")
    assert questions_of_a_tick() > 1
    found.step(3, schema_version=3, record={"actions": [answer(request, "taken")]})
    eventually(lambda: found.requests()[0]["state"] == "done")
    assert questions_of_a_tick() > 1
    found.step(4, end="stopped")
    eventually(lambda: "action_followed" in [change for change, _, _ in found.history()])
    assert questions_of_a_tick() == 1


@sqlite_only
def test_a_trainer_refuses_a_request_whose_time_is_over(training, asked):
    """It was received in time, and the step took longer than the request held."""
    policy = ActionPolicy({}, dry_run=False, requests=["stop"])
    found, make_step, monitor = trained(training, asked, actions=policy)
    assert found.ask("stop").status == 200

    def is_received():
        make_step()
        return found.requests()[0]["state"] == "received"

    eventually(is_received)
    (decision,) = monitor.policy.take_due()
    (settled,) = SingleProcessCoordinator(clock=lambda: decision.expires_at).settle([decision], 1)
    make_step(settled.decision.report("refused", settled.refusal))
    eventually(lambda: found.requests()[0]["state"] == "refused")
    assert found.requests()[0]["detail"].startswith("expired")


@sqlite_only
def test_a_request_made_before_the_run_went_back_does_not_block_the_next_one(asked):
    """No receipt brings it any more; the alert of the new attempt can be asked about at once."""
    found = asked()
    found.ask("stop")
    found.step(0, attempt=2)
    (request,) = found.requests()
    assert request["state"] == "expired"
    assert "went back" in request["detail"]
    (alert,) = eventually(lambda: found.live.get("/alerts", state="firing")["items"])
    again = Asked(found.live, alert["id"])
    assert again.ask("stop").status == 200
    assert [each["action"] for each in found.step(1, attempt=2)] == ["stop"]


@sqlite_only
def test_a_run_that_ends_answers_what_was_asked_of_it(asked):
    """Nobody is left to act; a trainer that acted and ended has answered before."""
    found = asked()
    found.ask("stop")
    found.ask("checkpoint")
    (stop, _) = found.step(1)
    found.step(2, schema_version=3, record={"actions": [answer(stop, "taken")]}, end="stopped")
    eventually(lambda: {each["action"]: each["state"] for each in found.requests()} == {
        "stop": "done", "checkpoint": "expired",
    })  # fmt: skip
    assert "the run is stopped" in found.requests()[0]["detail"]


@sqlite_only
def test_a_trainer_that_starts_again_between_received_and_the_answer_frees_the_place(asked):
    """The process that had it is gone; its answer, if it comes late, still counts."""
    found = asked()
    found.ask("rollback")
    (request,) = found.step(1)
    found.step(2, schema_version=3, record={"actions": [answer(request, "received")]})
    eventually(lambda: found.requests()[0]["state"] == "received")
    found.live.send(run="r", attempt=2, config={})
    assert found.requests()[0]["state"] == "expired"
    assert "not known whether" in found.requests()[0]["detail"]
    assert found.step(3, attempt=2) == []
    assert found.ask("rollback").status == 200
    found.step(3, schema_version=3, record={"actions": [answer(request, "taken")]})
    eventually(lambda: found.requests()[1]["state"] == "done")


@sqlite_only
def test_a_run_that_is_asked_to_stop_is_not_asked_to_go_back(asked):
    """A stop may follow a rollback that waits, because people ask for it in an emergency."""
    found = asked()
    assert found.ask("rollback").status == 200
    assert found.ask("stop").status == 200
    assert {each["action"] for each in found.step(1)} == {"stop", "rollback"}
    other = found.live.run(run="other", records=[{"step": 0, "scalars": {"page": 1.0}}])
    (alert,) = eventually(lambda: found.live.get(f"/runs/{other}/alerts")["items"])
    again = Asked(found.live, alert["id"])
    assert again.ask("stop").status == 200
    answered = again.ask("rollback")
    assert (answered.status, "asked for stop" in answered.json()["detail"]) == (409, True)
    assert again.ask("checkpoint").status == 200


def test_what_cannot_be_asked_is_refused_in_words(asked):
    """Twice the same, something unknown, about nothing, of an alert or a run that is over."""
    found = asked()
    assert found.ask("stop").status == 200
    assert (found.ask("stop").status, "anna has asked" in found.ask("stop").json()["detail"]) == (409, True)
    assert found.ask("explode").status == 422
    assert Asked(found.live, "f" * 32).ask("stop").status == 404
    found.step(1, record={"scalars": {"page": 0.0}})
    eventually(lambda: found.live.get(f"/alerts/{found.alert_id}")["state"] == "resolved")
    assert found.ask("rollback").json()["error"] == "RequestNotPossible"
    other = found.live.run(run="over", records=[{"step": 0, "scalars": {"page": 1.0}}])
    (alert,) = eventually(lambda: found.live.get(f"/runs/{other}/alerts")["items"])
    found.live.send(run="over", end="finished")
    assert "the run is finished" in Asked(found.live, alert["id"]).ask("stop").json()["detail"]


@sqlite_only
def test_a_request_outlives_the_collector(asked, start_collector, scripted):
    """It is in the database: the next start delivers it."""
    found = asked()
    found.ask("stop")
    found.live.server.should_exit = True
    again = Asked(start_collector(engine=scripted), found.alert_id)
    (request,) = eventually(lambda: again.step(1))
    assert request["by"] == "anna"


def test_a_request_that_was_made_by_a_clock_days_ahead_lasts_no_longer(asked, start_collector, scripted, clock):
    """Ten minutes stay ten minutes once the clock is right and the collector was started again."""
    clock.now = time.time() + 3 * DAY_SECONDS
    found = asked(clock=clock)
    found.ask("stop")
    found.live.stop()
    again = Asked(start_collector(engine=scripted), found.alert_id)
    with again.live.app.state.collector.store.read() as repositories:
        (stored,) = repositories.action_requests.of_alert(found.alert_id, limit=1)
    assert stored.expires_at - stored.requested_at == REQUEST_SECONDS
    assert stored.expires_at <= time.time() + REQUEST_SECONDS
