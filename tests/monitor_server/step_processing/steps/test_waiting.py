"""The steps that wait for ranks are bounded for each run, whatever its trainer sends."""

import pytest

from monitor_server.settings import Settings
from monitor_server.step_processing.slices.projection import Projection
from monitor_server.step_processing.steps import waiting
from monitor_server.step_processing.steps.detection import Tracker

MOST = 5


@pytest.fixture
def project(store, scripted, clock):
    """Project a run while it has work, by a projection that is kept, or by a new one for each slice."""
    settings = Settings(step_deadline_seconds=1e9, max_waiting_steps=MOST)
    kept = []

    def project_all(run_id, *, is_restarted):
        while True:
            if is_restarted or not kept:
                kept[:] = [Projection(Tracker(scripted), settings=settings, clock=clock)]
            if not kept[0].project(store, run_id, is_smallest=True).has_more:
                return

    return project_all


def _steps(store, run_id):
    with store.read() as repositories:
        found = repositories.steps.page(run_id, from_step=0, limit=100)
        waits = [step for _, step in repositories.waiting.first(run_id, limit=100)]
        assert repositories.waiting.count_of(run_id) == len(waits)
        return {step.step: step.signals for step in found}, waits


@pytest.fixture(params=[2, 64])
def first_steps(request, monkeypatch):
    """The number of steps that are read from the table at once."""
    monkeypatch.setattr(waiting, "FIRST_STEPS", request.param)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.usefixtures("first_steps")
def test_a_rank_that_never_reports_holds_back_no_more_steps_than_may_wait(store, append, project, caplog, is_restarted):
    """The first ones are complete without it, also where not all that wait are in memory, and it mends them later."""
    share = {"loss": {"type": "moments", "sum": 2.0, "count": 1}}
    for begin in range(0, 12, 4):
        records = [{"step": step, "summaries": share} for step in range(begin, begin + 4)]
        run_id = append(rank=0, world_size=256, records=records)
        project(run_id, is_restarted=is_restarted)
        complete, waits = _steps(store, run_id)
        end = max(0, begin + 4 - MOST)
        assert (list(complete), waits) == (list(range(end)), list(range(end, begin + 4)))
    said = [line for line in caplog.messages if line.startswith("more than 5 steps of run 'r' wait for ranks")]
    assert said if is_restarted else len(said) == 1
    assert complete[0] == {"loss": 2.0, "step/seen_frac": 1 / 256}
    append(
        rank=1,
        world_size=256,
        records=[{"step": 0, "summaries": {"loss": {"type": "moments", "sum": 4.0, "count": 1}}}],
    )
    project(run_id, is_restarted=is_restarted)
    assert _steps(store, run_id)[0][0] == {"loss": 3.0, "step/seen_frac": 2 / 256}
