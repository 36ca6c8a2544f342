"""The life of an alert, directly on a store: opened, kept, raised, acknowledged and resolved."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

from monitor_server.alerts.changes.lifecycle import Lifecycle
from monitor_server.detection.protocol import Finding, Severity


@pytest.fixture
def working(store, append):
    """The alerts of a run in a transaction, saved at its end."""
    run_id = append(records=[])

    @contextmanager
    def open_alerts():
        with store.write() as repositories:
            alerts = Lifecycle(repositories.alerts.open(run_id), run_id)
            yield alerts
            alerts.save(repositories, now=10.0)

    return open_alerts


def _finding(kind="a", severity=Severity.WARNING, step=1):
    return Finding(
        kind=kind, severity=severity, step=step, score=2.0, threshold=1.0, summary=f"{kind} at {step}", evidence={}
    )


def _reconcile(alerts, findings, *, step, concerns=lambda _: True, rewinds=False, continues=True):
    changed = alerts.reconcile(
        findings, phase="decay", step=step, now=10.0, concerns=concerns, rewinds=rewinds, continues=continues
    )
    return [(alert.kind, alert.state, alert.severity) for alert in changed]


def test_an_alert_is_kept_while_it_is_found_and_resolved_when_it_is_not(working):
    """Steps 1 to 3, each in its own transaction: opened, kept, resolved."""
    with working() as alerts:
        assert _reconcile(alerts, [_finding()], step=1) == [("a", "firing", "warning")]
    with working() as alerts:
        assert _reconcile(alerts, [_finding(step=2)], step=2) == []
        (kept,) = alerts.firing
        assert (kept.opened_step, kept.last_step, kept.summary) == (1, 2, "a at 1")
    with working() as alerts:
        assert _reconcile(alerts, [], step=3) == [("a", "resolved", "warning")]
    with working() as alerts:
        assert alerts.firing == []


def test_a_finding_that_comes_back_opens_another_alert(working):
    """The resolved alert keeps its id and its end."""
    with working() as alerts:
        _reconcile(alerts, [_finding()], step=1)
        first = alerts.firing[0].id
        _reconcile(alerts, [], step=2)
        assert _reconcile(alerts, [_finding()], step=3) == [("a", "firing", "warning")]
        assert alerts.firing[0].id != first


def test_a_warning_keeps_firing_for_as_many_steps_as_the_settings_demand():
    """Findings with at most two steps between them are one alert; it ends at the third step without a finding."""
    alerts = Lifecycle((), "r", keep_firing_steps=2)
    _reconcile(alerts, [_finding()], step=1)
    assert [_reconcile(alerts, [_finding(step=step)] if step == 4 else [], step=step) for step in range(2, 7)] == [
        []
    ] * 5
    assert [(alert.opened_step, alert.last_step) for alert in alerts.firing] == [(1, 4)]
    assert _reconcile(alerts, [], step=7) == [("a", "resolved", "warning")]
    assert [each.change for each in alerts.transitions] == ["opened", "resolved"]


@pytest.mark.parametrize(
    ("finding", "continues"),
    [
        (_finding(severity=Severity.CRITICAL, step=3), True),
        (_finding(kind="rule:low", step=3), True),
        (_finding(kind="telemetry_stale", step=3), True),
        (_finding(kind="monitor_degraded", step=3), True),
        (_finding(step=3), False),
    ],
    ids=["critical", "rule", "clock", "failed detection", "new attempt"],
)
def test_these_alerts_end_with_their_finding_whatever_the_settings_demand(finding, continues):
    """A page must not outlast its cause, rules have durations of their own, and a new attempt begins without any."""
    alerts = Lifecycle((), "r", keep_firing_steps=9)
    _reconcile(alerts, [finding], step=3)
    ended = [(finding.kind, "resolved", str(finding.severity))]
    assert _reconcile(alerts, [], step=4, continues=continues) == ended


def test_a_pending_alert_ends_with_its_finding():
    """It has not fired, so it cannot keep firing."""
    alerts = Lifecycle((), "r", pending_steps=3, keep_firing_steps=3)
    _reconcile(alerts, [_finding()], step=1)
    assert _reconcile(alerts, [], step=2) == [("a", "resolved", "warning")]


def test_what_is_found_again_after_a_rewind_opens_another_alert(working, store):
    """The run goes back to step 3 below the alert of step 5, and to step 4 below the step at which it was critical."""
    with working() as alerts:
        _reconcile(alerts, [_finding(step=5)], step=5)
        first = alerts.firing[0]
    with working() as alerts:
        changed = [("a", "resolved", "warning"), ("a", "firing", "warning")]
        assert _reconcile(alerts, [_finding(step=3)], step=3, rewinds=True) == changed
    (second,) = alerts.firing
    assert (second.opened_step, second.summary, second.reopened_from) == (3, "a at 3", first.id)
    assert [each.change for each in alerts.transitions] == ["resolved", "opened"]
    with working() as alerts:
        _reconcile(alerts, [_finding(severity=Severity.CRITICAL, step=5)], step=5)
        _reconcile(alerts, [_finding(step=4)], step=4, rewinds=True)
    (third,) = alerts.firing
    assert (third.severity, third.opened_step, third.reopened_from) == ("warning", 4, second.id)
    with store.read() as repositories:
        history = repositories.alert_history.page(third.run_id, "a", limit=10)
    assert [entry["why"] for entry in history if entry["change"] == "resolved"] == [
        "the run went back to step 4", "the run went back to step 3",
    ]  # fmt: skip


def test_an_alert_that_began_before_the_steps_that_are_made_again_stays(working):
    """It is the same alert, with its acknowledgement."""
    with working() as alerts:
        _reconcile(alerts, [_finding(step=3)], step=3)
        first = alerts.firing[0]
    with working() as alerts:
        assert _reconcile(alerts, [_finding(step=4)], step=4, rewinds=True) == []
    assert [alert.id for alert in alerts.firing] == [first.id]


def test_the_most_severe_finding_of_a_kind_counts(working):
    """The order in which the findings come makes no difference."""
    found = [_finding(severity=Severity.CRITICAL), _finding(severity=Severity.INFO)]
    for step, findings in enumerate([found, found[::-1]], start=1):
        with working() as alerts:
            _reconcile(alerts, findings, step=step)
            assert [alert.severity for alert in alerts.firing] == ["critical"]


def test_a_severity_rises_and_does_not_fall(working):
    """A warning at step 1, critical from step 2 on; a warning at step 3 leaves it critical."""
    with working() as alerts:
        _reconcile(alerts, [_finding()], step=1)
        assert _reconcile(alerts, [_finding(severity=Severity.CRITICAL, step=2)], step=2) == [
            ("a", "firing", "critical")
        ]
        assert _reconcile(alerts, [_finding(step=3)], step=3) == []
        (alert,) = alerts.firing
        assert (alert.severity, alert.severity_step, alert.last_step, alert.summary) == ("critical", 2, 3, "a at 2")


def test_findings_that_do_not_concern_a_kind_leave_its_alert_alone(working):
    """The findings of detection do not concern the alerts of the clock."""
    with working() as alerts:
        _reconcile(alerts, [_finding("clock")], step=1)
        assert _reconcile(alerts, [], step=2, concerns=lambda kind: kind != "clock") == []
        assert [alert.kind for alert in alerts.firing] == ["clock"]


def test_an_acknowledgement_is_kept_until_the_alert_becomes_more_severe(working, store):
    """The person knew of a warning, and wrote it after the alerts were read; a critical alert is another matter."""
    with working() as alerts:
        _reconcile(alerts, [_finding()], step=1)
    with store.read() as repositories:
        read = Lifecycle(repositories.alerts.open(alerts.firing[0].run_id), alerts.firing[0].run_id)
    with store.write() as repositories:
        known = replace(read.firing[0], acknowledged_at=11.0, acknowledged_by="Ada", note="known")
        repositories.alerts.save(known)
    _reconcile(read, [_finding(step=2)], step=2)
    with store.write() as repositories:
        read.save(repositories, now=10.0)
    with working() as alerts:
        (alert,) = alerts.firing
        assert (alert.acknowledged_by, alert.note, alert.acknowledged_at) == ("Ada", "known", 11.0)
        _reconcile(alerts, [_finding(severity=Severity.CRITICAL, step=3)], step=3)
    with working() as alerts:
        (alert,) = alerts.firing
        assert (alert.acknowledged_by, alert.note, alert.acknowledged_at) == (None, None, None)


def test_nothing_is_stored_before_save(store, append):
    """A transaction that does not save leaves no alert."""
    run_id = append(records=[])
    with store.write() as repositories:
        _reconcile(Lifecycle(repositories.alerts.open(run_id), run_id), [_finding()], step=1)
    with store.read() as repositories:
        assert repositories.alerts.firing(run_id) == []
