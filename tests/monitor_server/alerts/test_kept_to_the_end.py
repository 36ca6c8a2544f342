"""The end of warnings that are only kept, where the last step of their run is not the one that it seems to be."""

import pytest

from monitor_server.settings import Settings
from monitor_server.step_processing.slices.projection import Projection
from monitor_server.step_processing.steps.detection import Tracker


@pytest.fixture
def kept(scripted, clock):
    """Return a function that builds a projection which keeps warnings for five steps, and notes their transitions."""

    def build(**options):
        changes = []
        projection = Projection(
            Tracker(scripted),
            settings=Settings(keep_firing_steps=5),
            clock=clock,
            record_transitions=lambda _repositories, _run, transitions: changes.extend(
                each.change for each in transitions
            ),
            **options,
        )
        return projection, changes

    return build


def _alerts(store, run_id):
    with store.read() as repositories:
        return [dict(row) for row in repositories.alerts.page(limit=10, run_id=run_id)]


def _record(step, **scalars):
    return {"records": [{"step": step, "scalars": scalars}]}


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_kept_warning_ends_at_a_step_that_waited_until_the_next_attempt(store, append, clock, kept, is_silent):
    """A rank dies before it sends a step, and the next attempt ends before its first one."""
    projection, changes = kept()
    for rank in (0, 1):
        run_id = append(world_size=2, rank=rank, attempt=1, **_record(10, warn=1.0))
    append(world_size=2, rank=0, attempt=1, **_record(11, quiet=1.0))
    projection.project(store, run_id)
    append(world_size=2, rank=0, attempt=2)
    projection.project(store, run_id)
    if is_silent:
        clock.now += 1e6
    else:
        append(world_size=2, rank=0, attempt=2, end="finished")
    projection.project(store, run_id)
    (alert,) = [row for row in _alerts(store, run_id) if row["kind"] == "scripted"]
    assert (alert["state"], alert["resolved_step"]) == ("resolved", 11)
    assert changes.count("resolved") == 1


def test_a_kept_warning_is_not_ended_at_a_step_that_is_not_the_last(store, append, kept):
    """The trainer sends its last step, and its end, while the step before is projected."""
    coming = [_record(3, warn=1.0), {"end": "finished"}]

    def send_all():
        while coming:
            append(attempt=1, **coming.pop(0))

    projection, changes = kept(give_way=send_all)
    run_id = append(attempt=1, **_record(1, warn=1.0))
    append(attempt=1, **_record(2, quiet=1.0))
    while projection.project(store, run_id).has_more:
        pass
    (alert,) = _alerts(store, run_id)
    assert (alert["state"], alert["last_step"]) == ("firing", 3)
    assert changes == ["opened"]
