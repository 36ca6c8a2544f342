"""The answers to requests, without threads and without HTTP."""

from trainer_hooks.actions import ActionPolicy
from trainer_hooks.delivery import DropCounter
from trainer_hooks.recording.action_requests import MAX_REPORTS, NO_ACTOR, RequestReceiver
from trainer_hooks.recording.health import RunHealth
from trainer_hooks.wire import ActionRequest, AlertNotice, Receipt

ALERT = AlertNotice(id="a", kind="k", severity="critical", opened_step=1, summary="s")


def test_a_record_holds_a_bounded_number_of_reports_and_the_rest_follows_in_order():
    """A collector refuses a record with more than 100, and with it the step; a hostile one may ask that often."""
    policy = ActionPolicy({}, dry_run=False, requests=["checkpoint"])
    receiver = RequestReceiver(policy, reports=True)
    receiver.begin_acting()
    for number in range(100):
        receiver.consider(ActionRequest(id=f"q{number}", action="checkpoint", by="anna", alert=ALERT))
    taken = [decision.report("taken") for decision in policy.take_due()]
    receiver.add_reports(taken)
    records = [receiver.take_reports()]
    while records[-1]:
        records.append(receiver.take_reports())
    assert max(map(len, records)) == MAX_REPORTS <= 100
    reports = [(each.request_id, each.outcome) for record in records for each in record]
    assert reports == [(f"q{number}", outcome) for outcome in ("received", "taken") for number in range(100)]


def test_no_report_is_lost_while_every_step_is_dropped():
    """Whatever a collector sends, the reports on all that a process takes from it wait for a recorded step."""
    policy = ActionPolicy({"critical": "checkpoint"}, dry_run=False, requests=["checkpoint"])
    receiver = RequestReceiver(policy, reports=True)
    receiver.begin_acting()
    health = RunHealth(1, DropCounter(), [policy.consider], on_request=receiver.consider)
    many = range(1_500)
    alerts = [AlertNotice(id=f"a{n}", kind="k", severity="critical", opened_step=1, summary="s") for n in many]
    requests = [ActionRequest(id=f"q{n}", action="checkpoint", by="anna", alert=ALERT) for n in many]
    health.update(Receipt(run_id="r", accepted=1, alerts=alerts, requests=requests), attempt=1)
    taken = [decision.report("taken") for decision in policy.take_due()]
    receiver.add_reports(taken)
    for _ in range(3):
        receiver.put_back(receiver.take_reports())
    records = [receiver.take_reports()]
    while records[-1]:
        records.append(receiver.take_reports())
    reports = [each for record in records for each in record]
    assert reports[-len(taken) :] == taken
    assert len(taken) == 1_100
    assert [each.outcome for each in reports[: -len(taken)]] == ["received"] * 100


def test_a_request_is_refused_where_nothing_carries_out_actions(caplog):
    """A loop that only logs its steps never reads a decision; the request does not wait for it."""
    policy = ActionPolicy({}, dry_run=False, requests=["stop"])
    receiver = RequestReceiver(policy, reports=True)
    receiver.consider(ActionRequest(id="q", action="stop", by="anna", alert=ALERT))
    (report,) = receiver.take_reports()
    assert (report.outcome, report.detail) == ("refused", NO_ACTOR)
    assert policy.take_due() == []
    assert "carries out actions" in caplog.text
