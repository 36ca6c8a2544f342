"""Detection of a run's steps, directly on a store: once, in order, and resumed from the stored state."""

from contextlib import contextmanager

import msgspec
import pytest

from monitor_server.alerts.changes.lifecycle import Lifecycle
from monitor_server.step_processing.run_context import RunContext
from monitor_server.step_processing.steps.detection import Tracker
from monitor_server.store.repositories.steps import Step


@pytest.fixture
def working(store, append, clock):
    """A run in a transaction, as in a slice."""
    run_id = append(records=[{"step": 1}])

    @contextmanager
    def open_run():
        with store.write() as repositories:
            run = repositories.runs.lock(run_id)
            alerts = Lifecycle(repositories.alerts.open(run_id), run_id)
            yield RunContext(
                repositories=repositories, run=run, alerts=alerts, positions={}, now=clock.now, is_watched=True
            )
            alerts.save(repositories, now=clock.now)
            repositories.runs.save_projection(run)

    return open_run


def _step(number, *, attempt=1, **signals):
    return Step(step=number, attempt=attempt, time=0.0, policy_version=None, data_version=None, signals=signals)


def _save(tracker, context):
    """Write the state of the detectors and the other deferred rows, as at the end of a slice."""
    context.write(context.repositories)
    tracker.save(context.repositories, context.run, tracker.encode(context))


def _observe(tracker, working, *steps):
    """Detect on steps in one transaction, and return the state and severity of each alert that changed."""
    with working() as context:
        changed = [alert for step in steps for alert in tracker.observe(context, step)]
        _save(tracker, context)
    return [(alert.state, alert.severity) for alert in changed]


def _saved(store, run_id):
    with store.read() as repositories:
        saved = repositories.detector_states.load(run_id)
    return saved.attempt, saved.step, msgspec.msgpack.decode(saved.state)["seen"]


def test_an_alert_opens_becomes_critical_and_resolves_with_the_findings(scripted, working):
    """The findings of four steps: none, a warning, a critical one, none."""
    steps = [_step(1), _step(2, warn=1.0), _step(3, page=1.0), _step(4)]
    assert _observe(Tracker(scripted), working, *steps) == [
        ("firing", "warning"),
        ("firing", "critical"),
        ("resolved", "critical"),
    ]


def test_a_step_is_detected_once_and_in_order(scripted, working, store, append):
    """A step that was detected, and one before it, change nothing; a newer attempt may go back."""
    steps = [_step(2), _step(2, warn=1.0), _step(1, warn=1.0), _step(3), _step(1, attempt=2)]
    assert _observe(Tracker(scripted), working, *steps) == []
    assert _saved(store, append(records=[])) == (2, 1, [[1, 2], [1, 3], [2, 1]])


def test_another_tracker_continues_from_the_stored_state(scripted, working, store, append):
    """This happens after a restart, or in another collector; then the first tracker reads the state of the other."""
    first, second = Tracker(scripted), Tracker(scripted)
    _observe(first, working, _step(1))
    _observe(second, working, _step(2))
    _observe(first, working, _step(2, warn=1.0), _step(3))
    assert _saved(store, append(records=[])) == (1, 3, [[1, 1], [1, 2], [1, 3]])


def test_a_tracker_forgets_what_the_store_did_not_take(scripted, working, store, append):
    """The transaction of step 2 fails: after `forget` step 2 is detected again, from the state after step 1."""
    tracker = Tracker(scripted)
    _observe(tracker, working, _step(1))

    def fail():
        with working() as context:
            tracker.observe(context, _step(2))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    tracker.forget()
    _observe(tracker, working, _step(2))
    assert _saved(store, append(records=[])) == (1, 2, [[1, 1], [1, 2]])


def test_engines_in_memory_are_bounded(scripted, working, store, append):
    """With room for no engine, each transaction loads the stored state, and nothing is lost."""
    tracker = Tracker(scripted, max_runs=1)
    for number in (1, 2, 3):
        _observe(tracker, working, _step(number))
    assert _saved(store, append(records=[])) == (1, 3, [[1, 1], [1, 2], [1, 3]])


def test_a_failing_detector_opens_an_alert_and_the_next_step_resolves_it(scripted, working):
    """The exception does not leave the tracker; the alert names its type."""
    tracker = Tracker(scripted)
    with working() as context:
        (alert,) = tracker.observe(context, _step(1, fail=1.0))
        assert (alert.kind, alert.evidence["error"]) == ("monitor_degraded", "ArithmeticError")
        assert context.run.phase == "unknown"
        (resolved,) = tracker.observe(context, _step(2))
        assert (resolved.kind, resolved.state) == ("monitor_degraded", "resolved")


def test_a_failing_detector_resolves_no_other_alert(scripted, working):
    """Whether its finding holds was not observed, so nobody is told that it has ended and opened again."""
    tracker = Tracker(scripted)
    with working() as context:
        (opened,) = tracker.observe(context, _step(1, page=1.0))
        tracker.observe(context, _step(2, fail=1.0))
        tracker.observe(context, _step(3, page=1.0))
        assert [alert.id for alert in context.alerts.firing] == [opened.id]
        assert [each.alert.kind for each in context.alerts.transitions] == ["scripted", *["monitor_degraded"] * 2]


def test_phases_begin_where_they_change_and_a_rewind_replaces_them(scripted, working):
    """Healthy from step 1 on and decay from step 3 on; attempt 2 goes back to step 2 and is healthy there."""
    tracker = Tracker(scripted)
    _observe(tracker, working, _step(1), _step(2), _step(3, phase=3.0))
    with working() as context:
        assert context.repositories.phases.all(context.run.id) == [("healthy", 1, 2), ("decay", 3, None)]
        tracker.observe(context, _step(2, attempt=2))
        context.write(context.repositories)
        assert context.repositories.phases.all(context.run.id) == [("healthy", 1, None)]
        assert context.run.phase == "healthy"


def test_an_acknowledgement_is_passed_to_the_detectors_after_the_newest_step(scripted, working, store, append):
    """Before the first step there is nothing to acknowledge; after step 4 a replay has to repeat it there."""
    tracker = Tracker(scripted)
    with working() as context:
        assert tracker.acknowledge(context, "scripted") is None
    _observe(tracker, working, _step(4))
    with working() as context:
        assert tracker.acknowledge(context, "scripted") == (1, 4)
        _save(tracker, context)
    assert _saved(store, append(records=[])) == (1, 4, [[1, 4], [1, 4, "scripted"]])
