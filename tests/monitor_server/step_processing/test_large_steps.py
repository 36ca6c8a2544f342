"""A step with far more records than a trainer sends costs its own run a bounded amount, and other runs nothing."""

import pytest

from monitor_server.settings import Settings
from monitor_server.step_processing.slices.projection import Projection
from monitor_server.step_processing.steps import budget, late_records
from monitor_server.step_processing.steps.detection import Tracker
from monitor_server.step_processing.steps.rank_merging import merge_records
from monitor_server.store.repositories.log.records import Records
from tests.live import eventually
from trainer_hooks import wire

SHARE = {"loss": wire.Moments(count=1.0, sum=3.0)}
BOUNDS = {"max_step_records": 5}
WORLD_SIZE = 2


@pytest.fixture
def project(store, scripted, clock):
    """Project a run while it has work, by a projection that the test keeps or makes again."""
    left_out = []

    def create():
        settings = Settings(step_deadline_seconds=60, **BOUNDS)
        return Projection(Tracker(scripted), settings=settings, clock=clock, on_left_out=left_out.append)

    def project_all(run_id, projection=None):
        projection = projection or create()
        slices = 1
        while (done := projection.project(store, run_id)) is not None and done.has_more:
            slices += 1
        return slices

    project_all.create, project_all.left_out = create, left_out
    return project_all


def _share(seq, number=1):
    moments = {"type": "moments", "count": 1.0, "sum": float(seq)}
    return {"step": number, "seq": seq, "scalars": {"a": float(seq)}, "summaries": {"loss": moments}}


def _signals(store, run_id, number=1):
    with store.read() as repositories:
        return repositories.steps.at(run_id, number)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_first_records_of_a_step_are_merged_and_the_others_counted(store, append, project, is_restarted, caplog):
    """Rank 0 sends a step seven times, of which five are merged, also by a collector that was restarted in between."""
    kept = None if is_restarted else project.create()
    for seq in range(7):
        run_id = append(rank=0, world_size=WORLD_SIZE, records=[_share(seq)])
        project(run_id, kept)
    append(rank=1, world_size=WORLD_SIZE, records=[_share(9)])
    project(run_id, kept)
    # Σ of 0 to 4 is 10, over 5: 2. Rank 1 came after the bound, so half of the ranks is seen.
    assert _signals(store, run_id) == {"a": 4.0, "loss": 2.0, "step/seen_frac": 0.5}
    assert sum(project.left_out) == 3
    assert "RLVITALS_MAX_STEP_RECORDS" in caplog.text


@pytest.mark.parametrize("is_restarted", [False, True])
def test_late_records_beyond_the_bound_change_nothing(store, append, project, clock, is_restarted):
    """Three records before the deadline, and ten after it: the first two of these mend the step."""
    kept = None if is_restarted else project.create()
    run_id = append(rank=0, world_size=WORLD_SIZE, records=[_share(seq) for seq in range(3)])
    project(run_id, kept)
    clock.now += 61
    project(run_id, kept)
    for seq in range(3, 13):
        append(rank=0, world_size=WORLD_SIZE, records=[_share(seq)])
        project(run_id, kept)
    assert _signals(store, run_id)["loss"] == 2.0
    assert sum(project.left_out) == 8


def test_a_full_step_is_not_read_again_for_what_comes_later(append, project, monkeypatch):
    """The end of the step is known: a record behind it is counted, whatever records the step has by then."""
    kept = project.create()
    run_id = append(records=[_share(seq) for seq in range(7)])
    append(records=[_share(7)])
    project(run_id, kept)
    append(records=[_share(8)])
    project(run_id, kept)
    append(records=[_share(9)])
    monkeypatch.setattr(Records, "of_steps", None)
    project(run_id, kept)
    assert sum(project.left_out) == 5


def test_large_steps_that_are_mended_take_several_slices(store, append, project, monkeypatch):
    """One batch has late records of many steps: other runs have their turn in between, and nothing is merged twice."""
    monkeypatch.setattr(budget, "MAX_STEPS_PER_SLICE", 2)
    kept = project.create()
    merged = []

    def merge(decoded, *, step, **named):
        merged.append(step)
        return merge_records(decoded, step=step, **named)

    run_id = append(records=[_share(number, number) for number in range(6)])
    project(run_id, kept)
    monkeypatch.setattr(late_records, "merge_records", merge)
    append(records=[_share(10 + number, number) for number in range(6)])
    assert project(run_id, kept) >= 3
    assert merged == list(range(6))
    assert [_signals(store, run_id, number)["a"] for number in range(6)] == [10.0 + number for number in range(6)]


def test_the_metric_counts_what_is_left_out(start_collector, scripted):
    """A live collector with a bound of bytes: two of three records of a step are beyond it."""
    live = start_collector(engine=scripted, max_step_bytes=1)
    live.send(run="r", records=[_share(seq) for seq in range(3)])

    def read():
        return live.pool.request("GET", f"{live.url}/metrics").data.decode()

    eventually(lambda: "rlvitals_projector_left_out_records_total 2.0" in read())
