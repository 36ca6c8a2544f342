"""Alerts: opened, kept, made more severe and resolved, and the alerts of the clock."""

import pytest

from monitor_server.alerts.liveness import TimeUnheard, silent_run_findings
from tests.live import eventually


@pytest.fixture
def live(start_collector, scripted, clock):
    return start_collector(engine=scripted, clock=clock, stall_minimum_seconds=100, stall_factor=5, lost_factor=10)


def _step(live, step, *, time=None, **signals):
    record = {"step": step, "scalars": signals} | ({} if time is None else {"time": time})
    return live.send(run="r", records=[record])


def _alerts(live):
    return [
        (a["kind"], a["severity"], a["state"], a["opened_step"], a["last_step"], a["resolved_step"])
        for a in live.get("/alerts")["items"]
    ]


def test_an_alert_fires_while_it_is_found_and_opens_anew_when_it_comes_back(live):
    """There is one alert for each period in which it holds; the receipt lists the firing alerts for the trainer."""
    assert "alerts" not in _step(live, 0, warn=0.0)
    notices = _step(live, 1, warn=1.0)["alerts"]
    assert [(notice["kind"], notice["severity"], notice["opened_step"]) for notice in notices] == [
        ("scripted", "warning", 1)
    ]
    _step(live, 2, warn=1.0)
    assert _alerts(live) == [("scripted", "warning", "firing", 1, 2, None)]
    _step(live, 3, warn=0.0)
    _step(live, 4, warn=1.0)
    assert _alerts(live) == [
        ("scripted", "warning", "firing", 4, 4, None),
        ("scripted", "warning", "resolved", 1, 2, 3),
    ]
    assert len({alert["id"] for alert in live.get("/alerts")["items"]}) == 2


def test_an_alert_becomes_more_severe_and_not_less(live):
    """A page replaces the warning's severity and evidence, and says since when; the same alert stays."""
    _step(live, 0, warn=1.0, phase=3)
    _step(live, 1, warn=1.0, page=2.0)
    (alert,) = live.get("/alerts")["items"]
    assert (alert["severity"], alert["summary"], alert["phase"]) == ("critical", "page is 2.0", "decay")
    assert (alert["opened_step"], alert["severity_step"], alert["warned_step"]) == (0, 1, 0)
    _step(live, 2, warn=1.0)
    assert live.get("/alerts", severity="critical", state="firing")["items"][0]["last_step"] == 2


def test_an_alert_that_became_critical_from_an_info_was_no_warning_before(live):
    """The step of its first warning is not the one at which it opened."""
    _step(live, 0, tell=1.0)
    assert live.get("/alerts")["items"][0]["warned_step"] is None
    _step(live, 1, page=1.0)
    (alert,) = live.get("/alerts")["items"]
    assert (alert["opened_step"], alert["severity_step"], alert["warned_step"]) == (0, 1, 1)


def test_non_finite_evidence_is_reported(live):
    """A score of infinity is evidence like any other."""
    _step(live, 0, warn="Infinity")
    assert live.get("/alerts")["items"][0]["evidence"]["score"] == "Infinity"


def test_a_run_without_steps_is_stalled_then_lost_and_recovers(live, clock):
    """After 100 s stalled, after 1,000 s lost; each is an alert of its own, and a step resolves both."""
    run_id = live.run(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    ask = lambda: live.get(f"/runs/{run_id}")  # noqa: E731
    assert (ask()["status"], ask()["phase"]) == ("running", "healthy")
    clock.now += 101
    eventually(lambda: _alerts(live) == [("telemetry_stale", "warning", "firing", 0, 0, None)])
    assert (ask()["status"], ask()["phase"]) == ("stalled", "unknown")
    clock.now += 900
    eventually(lambda: ("trainer_lost", "critical", "firing", 0, 0, None) in _alerts(live))
    assert ask()["status"] == "lost"
    assert live.get("/runs", status="lost")["items"][0]["id"] == run_id
    _step(live, 1, a=1.0)
    eventually(lambda: {alert[2] for alert in _alerts(live)} == {"resolved"})
    assert (ask()["status"], ask()["phase"]) == ("running", "healthy")


def test_a_lost_trainer_is_measured_from_its_last_message(live, clock):
    """A heartbeat a minute after the last step restarts the 1,000 s, and the stated silence exceeds that bound."""
    _step(live, 0, a=1.0)
    clock.now += 60
    live.send(run="r")
    clock.now += 1001
    eventually(lambda: ("trainer_lost", "critical", "firing", 0, 0, None) in _alerts(live))
    said = {alert["kind"]: (alert["summary"], alert["evidence"]) for alert in live.get("/alerts")["items"]}
    lost, evidence = said["trainer_lost"]
    assert lost == "nothing from the trainer for 1001 s; expected within 1000 s"
    assert evidence == {"statistic": 1001.0, "threshold": 1000.0, "window": "seconds since the last message"}
    assert said["telemetry_stale"][1]["window"] == "seconds since the last step"


def test_a_step_that_was_processed_late_shortens_no_silence():
    """A run whose trainer is silent for 274 s has no step for as long, whenever its last step was processed."""
    silence = TimeUnheard.of(now=1000.0, last_seen=726.0, last_step_at=1000.0)
    findings = silent_run_findings("lost", step=9, silence=silence, stall_seconds=20.0, lost_factor=10.0)
    assert [(finding.kind, finding.score > finding.threshold) for finding in findings] == [
        ("telemetry_stale", True),
        ("trainer_lost", True),
    ]


def test_a_slow_run_is_given_more_time(live, clock):
    """Steps of 60 s give a deadline of 5 × 60 s = 300 s, not the least of 100 s."""
    for step in range(4):
        run_id = _step(live, step, time=clock.now + 60 * step, a=1.0)["run_id"]
    clock.now += 299
    assert live.get(f"/runs/{run_id}")["status"] == "running"
    clock.now += 2
    assert live.get(f"/runs/{run_id}")["status"] == "stalled"


def test_a_run_that_sends_every_tenth_step_is_given_the_time_between_them(live, clock):
    """Every tenth step of 60 s is sent, so that the deadline is 5 × 600 s, and the time of a step 60 s."""
    for step in range(0, 40, 10):
        run_id = _step(live, step, time=clock.now + 60 * step, a=1.0)["run_id"]
    assert live.get(f"/runs/{run_id}")["step_seconds"] == 60
    clock.now += 2999
    assert live.get(f"/runs/{run_id}")["status"] == "running"
    clock.now += 2
    assert live.get(f"/runs/{run_id}")["status"] == "stalled"


def test_a_run_ends_when_its_trainer_says_so_and_goes_on_with_a_new_attempt(live, clock):
    """A run that has ended never becomes stalled; a newer attempt makes it running again."""
    run_id = live.run(run="r", end="finished", records=[{"step": 0, "scalars": {"a": 1.0}}])
    clock.now += 10_000
    assert live.get(f"/runs/{run_id}")["status"] == "finished"
    live.send(run="r", attempt=2)
    assert live.get(f"/runs/{run_id}")["status"] == "running"


def test_a_trainer_receives_no_alert_about_its_own_silence(live, clock):
    """Both alerts still fire when records arrive again, and the receipts of those records leave them out."""
    _step(live, 0, a=1.0)
    clock.now += 1001
    eventually(lambda: {alert[0] for alert in _alerts(live)} == {"telemetry_stale", "trainer_lost"})
    assert "alerts" not in live.send(run="r")
    assert "alerts" not in _step(live, 1, a=1.0)


def test_a_new_attempt_receives_the_alerts_of_its_own_steps(live):
    """An alert from step 3 does not concern a process that went back; a finding at step 2 is another alert."""

    def digest(receipt):
        opened = [notice["opened_step"] for notice in receipt.get("alerts", [])]
        return receipt.get("phase"), receipt.get("judged_step"), opened

    records = [{"step": step, "scalars": {"warn": float(step == 3), "phase": 3.0 * (step == 3)}} for step in range(4)]
    assert digest(live.send(run="r", attempt=1, records=records)) == ("decay", 3, [3])
    assert digest(live.send(run="r", attempt=2)) == (None, None, [])
    sick = {"warn": 1.0, "phase": 3.0}
    assert digest(live.send(run="r", attempt=2, records=[{"step": 2, "scalars": sick}])) == ("decay", 2, [2])
    assert digest(live.send(run="r", attempt=2, records=[{"step": 3, "scalars": sick}])) == ("decay", 3, [2])
    assert digest(live.send(run="r", attempt=1)) == (None, None, [])
