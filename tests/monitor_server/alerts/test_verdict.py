"""The verdict in a receipt: which alerts a trainer receives, and for which attempt."""

import pytest

from monitor_server.alerts.verdict import load_verdict, read_verdict
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.runs import Run


def _run(**fields):
    known = {"last_attempt": 2, "last_step": 10, "phase": "decay"}
    return Run(
        id="r",
        project="p",
        name="n",
        source="",
        capability="L1",
        world_size=1,
        attempt=2,
        started_at=0.0,
        last_seen=0.0,
        last_step_at=0.0,
        stall_seconds=300.0,
        **(known | fields),
    )


def _alert(kind="likelihood_drift", *, severity_step=5):
    return Alert(
        id=f"{kind}-{severity_step}",
        run_id="r",
        kind=kind,
        severity="warning",
        phase="decay",
        opened_step=3,
        severity_step=severity_step,
        last_step=10,
        opened_at=0.0,
        summary="it drifts",
        evidence={},
    )


def test_a_receipt_has_the_phase_the_step_and_the_firing_alerts():
    """The attempt of the trainer is the one that detection has processed."""
    fields = read_verdict(_run(), [_alert()]).receipt_fields(2)
    assert (fields["phase"], fields["judged_step"]) == ("decay", 10)
    (notice,) = fields["alerts"]
    assert (notice.id, notice.severity, notice.opened_step) == ("likelihood_drift-5", "warning", 3)


@pytest.mark.parametrize("attempt", [1, 3])
def test_a_trainer_of_another_attempt_receives_nothing(attempt):
    """A finding in one attempt does not concern the weights of another."""
    assert read_verdict(_run(), [_alert()]).receipt_fields(attempt) == {}


def test_before_the_first_step_there_is_nothing_to_report():
    """The run is known, and detection has seen no step of it."""
    verdict = read_verdict(_run(last_step=None), [_alert()])
    assert verdict.alerts == []
    assert verdict.receipt_fields(2) == {}


def test_alerts_of_the_clock_and_of_later_steps_are_left_out():
    """The trainer has just been heard; and an alert from step 11 belongs to weights that a rewind has left behind."""
    alerts = [_alert("trainer_lost"), _alert("telemetry_stale"), _alert(severity_step=11), _alert(severity_step=10)]
    assert [notice.id for notice in read_verdict(_run(), alerts).alerts] == ["likelihood_drift-10"]


def test_alerts_that_have_passed_stand_beside_those_that_fire():
    """The same rules apply to them; a receipt without any has no such field."""
    passed = [_alert("loss_explosion", severity_step=4), _alert("trainer_lost"), _alert(severity_step=11)]
    fields = read_verdict(_run(), [_alert()], passed).receipt_fields(2)
    assert [notice.id for notice in fields["alerts"]] == ["likelihood_drift-5"]
    assert [notice.id for notice in fields["passed"]] == ["loss_explosion-4"]
    assert "passed" not in read_verdict(_run(), [_alert()]).receipt_fields(2)


def test_a_verdict_is_read_from_the_store(store, append):
    """A run without steps has a verdict that reports nothing; an unknown run has none."""
    run_id = append(records=[{"step": 1}])
    assert load_verdict(store, run_id, now=0.0).receipt_fields(1) == {}
    assert load_verdict(store, "unknown", now=0.0) is None
