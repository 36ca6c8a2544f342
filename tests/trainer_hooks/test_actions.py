import math
import time

import msgspec
import pytest

from trainer_hooks import ConfigurationError
from trainer_hooks.actions import MAX_DECISIONS, UNSTATED_SECONDS, ActionPolicy
from trainer_hooks.recording.action_requests import RequestReceiver
from trainer_hooks.wire import ActionRequest, AlertNotice


def alert(name="a", *, kind="likelihood_drift", severity="critical"):
    """Return an alert that fires."""
    return AlertNotice(id=name, kind=kind, severity=severity, opened_step=3, summary="it falls")


def test_a_dry_run_only_logs_what_it_would_do(caplog):
    """By default a policy only logs, and decides nothing."""
    policy = ActionPolicy({"critical": "stop"})
    policy.consider(alert())
    assert policy.take_due() == []
    assert "would stop, because of critical likelihood_drift, open since step 3: it falls" in caplog.text


def test_a_rule_for_the_kind_takes_precedence_over_one_for_the_severity():
    """An alert that meets no rule leads to no decision."""
    policy = ActionPolicy({"critical": "stop", "likelihood_stagnation": "checkpoint"}, dry_run=False)
    policy.consider(alert("a", kind="likelihood_stagnation"))
    policy.consider(alert("b"))
    policy.consider(alert("c", severity="warning"))
    assert [decision.action for decision in policy.take_due()] == ["checkpoint", "stop"]


def test_a_failure_of_the_collector_stops_a_training_only_by_a_rule_for_its_kind():
    """A run that the collector cannot process may be healthy, so a rule for severities does not act on it."""
    by_severity = ActionPolicy({"warning": "stop", "critical": "stop"}, dry_run=False)
    by_kind = ActionPolicy({"monitor_degraded": "checkpoint"}, dry_run=False)
    for policy in (by_severity, by_kind):
        policy.consider(alert("a", kind="monitor_degraded"))
        policy.consider(alert("b", kind="monitor_degraded", severity="warning"))
    assert by_severity.take_due() == []
    assert [decision.action for decision in by_kind.take_due()] == ["checkpoint", "checkpoint"]


def test_an_alert_leads_to_one_decision_for_each_severity():
    """The collector repeats firing alerts; a warning that becomes critical leads to a new decision."""
    policy = ActionPolicy({"warning": "checkpoint", "critical": "stop"}, dry_run=False)
    policy.consider(alert(severity="warning"))
    policy.consider(alert(severity="warning"))
    assert [decision.action for decision in policy.take_due()] == ["checkpoint"]
    assert policy.take_due() == []
    policy.consider(alert(severity="critical"))
    assert [decision.action for decision in policy.take_due()] == ["stop"]


@pytest.mark.parametrize("dry_run", [True, False])
def test_decisions_that_no_loop_reads_take_bounded_memory(dry_run):
    """The oldest are dropped, and the newest alert is decided about, however many came before."""
    policy = ActionPolicy({"critical": "notify"}, dry_run=dry_run)
    for number in range(MAX_DECISIONS + 1):
        policy.consider(alert(str(number)))
    decisions = policy.take_foreseen() if dry_run else policy.take_due()
    assert [decision.alert.id for decision in decisions] == [str(number) for number in range(1, MAX_DECISIONS + 1)]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"critical": "panic"}, "'notify'"),
        ({"criticals": "stop"}, "got 'criticals'; the nearest are .*'critical'"),
        ({"likelihood-drift": "stop"}, "got 'likelihood-drift'; the nearest are .*'likelihood_drift'"),
        ({"stagnation": "stop"}, "got 'stagnation'; the nearest are .*'likelihood_stagnation'"),
        ({"trainer_lost": "stop"}, "that detection finds"),
    ],
    ids=["unknown action", "misspelt severity", "misspelt kind", "phase", "silence"],
)
def test_a_policy_that_could_not_act_is_refused(rules, message):
    """The run would be unprotected. The message lists the known actions, or the nearest names of alerts.

    A trainer never receives the alerts that the collector raises when it receives nothing.
    """
    with pytest.raises(ConfigurationError, match=message):
        ActionPolicy(rules)


def request(action="stop"):
    """Return a request of a person."""
    return ActionRequest(id="q1", action=action, by="anna", alert=alert())


def test_a_request_is_refused_unless_the_policy_names_it():
    """A rule for alerts allows people nothing, and neither does an action that is not known here."""
    policy = ActionPolicy({"critical": "stop"}, dry_run=False)
    assert "takes no request for 'stop'" in policy.consider_request(request())
    assert "takes no request for 'explode'" in policy.consider_request(request("explode"))
    assert policy.take_due() == []


def test_a_request_that_is_taken_becomes_a_decision_with_its_name(caplog):
    """Its key is the same on every rank, and its report names the request."""
    policy = ActionPolicy({}, dry_run=False, requests=["stop"])
    assert policy.consider_request(request()) is None
    (decision,) = policy.take_due()
    report = decision.report("taken")
    assert (decision.key, report.request_id, report.alert_id) == ("request q1/stop", "q1", "a")
    assert "stop, requested by anna: critical likelihood_drift" in caplog.text


@pytest.mark.parametrize(("seconds_left", "expected"), [(30.0, 30.0), (None, UNSTATED_SECONDS), (0.0, 0.0)])
def test_a_requests_end_is_counted_on_the_trainers_own_clock(seconds_left, expected):
    """It counts from the moment of receipt; an older collector states no end, and its requests end as well."""
    policy = ActionPolicy({}, dry_run=False, requests=["stop"])
    before = time.monotonic()
    assert policy.consider_request(msgspec.structs.replace(request(), seconds_left=seconds_left)) is None
    after = time.monotonic()
    (decision,) = policy.take_due()
    assert before + expected <= decision.expires_at <= after + expected
    assert decision.has_expired(after + expected)
    assert not decision.has_expired(before + expected - 1.0)


@pytest.mark.parametrize("seconds_left", [math.inf, 1e308, 86_400.0])
def test_no_collector_makes_a_request_hold_longer_than_ten_minutes(seconds_left):
    """The end in a receipt counts for at most ten minutes, whatever the receipt states."""
    policy = ActionPolicy({}, dry_run=False, requests=["stop"])
    policy.consider_request(msgspec.structs.replace(request(), seconds_left=seconds_left))
    (decision,) = policy.take_due()
    assert decision.has_expired(time.monotonic() + UNSTATED_SECONDS)


def test_texts_of_the_collector_are_one_printable_line_in_the_log_of_the_trainer(caplog):
    """Neither the author's name nor the action nor the evidence writes control characters or further lines."""
    hostile = "anna\nERROR forged\x1b[2J\x07"
    asked = request()
    alert = msgspec.structs.replace(asked.alert, summary=hostile)
    ActionPolicy({"critical": "stop"}).consider(msgspec.structs.replace(alert, severity="critical"))
    policy = ActionPolicy({}, dry_run=False, requests=["stop"])
    receiver = RequestReceiver(policy, reports=True)
    receiver.begin_acting()
    receiver.consider(msgspec.structs.replace(asked, by=hostile, alert=alert))
    receiver.consider(msgspec.structs.replace(asked, by=hostile, action=hostile))
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 3
    assert all(message.isprintable() for message in messages), messages
    assert all("anna\\nERROR forged\\x1b[2J\\x07" in message for message in messages)


def test_a_decision_of_a_rule_does_not_expire():
    """Its alert fires until the collector states otherwise."""
    policy = ActionPolicy({"critical": "stop"}, dry_run=False)
    policy.consider(alert(severity="critical"))
    (decision,) = policy.take_due()
    assert not decision.has_expired(math.inf)


def test_an_end_that_is_no_number_has_passed():
    """A request is carried out only while it certainly holds."""
    policy = ActionPolicy({}, dry_run=False, requests=["stop"])
    policy.consider_request(msgspec.structs.replace(request(), seconds_left=math.nan))
    assert policy.take_due()[0].has_expired(0.0)


def test_a_dry_run_only_foresees_a_request():
    """The report states that it was a dry run."""
    policy = ActionPolicy({}, requests=["stop"])
    assert policy.consider_request(request()) is None
    assert policy.take_due() == []
    assert [decision.action for decision in policy.take_foreseen()] == ["stop"]


@pytest.mark.parametrize("requests", [["panic"], ["skip_update"], "stop"], ids=str)
def test_requests_must_be_some_of_what_people_may_ask_for(requests):
    """The message lists them."""
    with pytest.raises(ConfigurationError, match="'rollback'"):
        ActionPolicy({}, requests=requests)
