"""The projector's thread, directly on a store: what it publishes, whom it wakes, and what a failing run costs."""

import pytest

from monitor_server.projection.events import AlertChanged, StepCompleted
from monitor_server.projection.projector import Projector
from monitor_server.projection.slices import Projection
from monitor_server.projection.step_detection import Tracker
from monitor_server.settings import Settings
from tests.live import PATIENCE_SECONDS, eventually


class Broken(Tracker):
    """Detection that fails outside of a detector on runs named ``broken``."""

    def observe(self, context, step):
        """Raise an error, or detect."""
        if context.run.name == "broken":
            raise ArithmeticError("no detection of this run")
        return super().observe(context, step)


@pytest.fixture
def published():
    """The events that were published, in order."""
    return []


@pytest.fixture
def projector(store, scripted, clock, published):
    """A projector that is not started yet."""
    settings = Settings()
    projection = Projection(Broken(scripted), settings=settings, clock=clock)
    created = Projector(store, projection, settings=settings, clock=clock, publish=published.extend)
    yield created
    created.stop()


def test_a_waiter_is_woken_when_its_position_is_projected(projector, append, published, store):
    """The events of the slice are published after its commit, and the verdict is known."""
    run_id = append(records=[{"step": 1}, {"step": 2, "scalars": {"warn": 1.0}}])
    with store.read() as repositories:
        end = repositories.runs.find(run_id).log_end
    projector.start()
    projector.wait_for(run_id, end).result(PATIENCE_SECONDS)
    verdict = projector.known_verdict(run_id)
    assert (verdict.step, [alert.kind for alert in verdict.alerts]) == (2, ["scripted"])
    eventually(lambda: [event.step.step for event in published if isinstance(event, StepCompleted)] == [1, 2])


def test_runs_that_were_appended_before_the_start_are_projected(projector, append, published):
    """As after a restart of the collector: nobody has notified the projector of them."""
    append(records=[{"step": 3}])
    projector.start()
    eventually(lambda: [event.step.step for event in published if isinstance(event, StepCompleted)] == [3])


def test_a_run_that_cannot_be_projected_is_quarantined_alone(projector, append, published, store):
    """Its waiter is woken without a verdict, an alert opens, and the run beside it is projected."""
    broken, well = append(run="broken", records=[{"step": 1}]), append(run="well", records=[{"step": 1}])
    waiters = [projector.wait_for(run_id, 1) for run_id in (broken, well)]
    projector.start()
    for waiter in waiters:
        waiter.result(PATIENCE_SECONDS)
    eventually(lambda: any(isinstance(event, AlertChanged) and event.run == "broken" for event in published))
    with store.read() as repositories:
        assert repositories.runs.find(broken).quarantine_reason == "ArithmeticError: no detection of this run"
        assert repositories.runs.find(broken).last_step is None
        assert repositories.runs.find(well).last_step == 1
    assert projector.is_alive


def test_a_projector_that_is_stopped_has_ended_its_thread(projector, append):
    """A stop before the start, and a second stop, do nothing."""
    append(records=[{"step": 1}])
    projector.start()
    assert projector.is_alive
    projector.stop()
    assert not projector.is_alive
    projector.stop()
