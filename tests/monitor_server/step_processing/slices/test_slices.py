"""A slice of a run's log, directly on a store: its projected steps, its end, and the projectors that may take it."""

import math
from dataclasses import replace

import msgspec
import pytest

from monitor_server.settings import Settings
from monitor_server.step_processing.events import StepCompleted
from monitor_server.step_processing.ownership import OWNER_SECONDS
from monitor_server.step_processing.steps.read_times import ReadTimes
from tests.monitor_server.interrupted_stores import crashing
from tests.store_connections import count_chunks


def _project(store, projection, run_id):
    return projection.project(store, run_id)


def _behind(store):
    with store.read() as repositories:
        return repositories.projection_queue.behind(limit=100)


def _unprojected(store):
    with store.read() as repositories:
        return repositories.projection_queue.unprojected_entries()


def _seen(store, run_id):
    with store.read() as repositories:
        return msgspec.msgpack.decode(repositories.detector_states.load(run_id).state)["seen"]


def test_a_slice_projects_the_log_up_to_its_end(store, append, create_projection):
    """Two batches: their steps are detected in order, and the verdict has the newest step and the firing alert."""
    append(records=[{"step": 1}])
    run_id = append(records=[{"step": 2, "scalars": {"warn": 1.0}}])
    done = _project(store, create_projection(), run_id)
    assert not done.has_more
    assert [event.step.step for event in done.events if isinstance(event, StepCompleted)] == [1, 2]
    assert (done.verdict.step, [alert.kind for alert in done.verdict.alerts]) == (2, ["scripted"])
    with store.read() as repositories:
        assert repositories.runs.find(run_id).position == done.position


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("stride", [1, 1_000])
def test_each_slice_compacts_a_chunk_until_none_is_due(store, append, create_projection, stride):
    """Of 32 steps that are numbered in any way, all but the newest are in chunks of six soon."""
    run_id, projection = append(records=[{"step": step * stride} for step in range(28)]), create_projection()
    while projection.project(store, run_id).has_more:
        pass
    with store.write() as repositories:
        repositories.compaction.remove_from(run_id, 0)
    found = []
    for step in range(28, 33):
        append(records=[{"step": step * stride}])
        projection.project(store, run_id)
        with store.read():
            found.append(count_chunks(run_id))
    assert found == [1, 2, 3, 4, 4]


def test_a_slice_that_is_rolled_back_is_projected_again(store, append, create_projection):
    """A crash before the commit repeats nothing and skips nothing."""
    run_id, projection = append(records=[{"step": 1}, {"step": 2}]), create_projection()
    with pytest.raises(ZeroDivisionError):
        _project(crashing(store), projection, run_id)
    projection.forget(run_id)
    _project(store, projection, run_id)
    _project(store, projection, run_id)
    assert _seen(store, run_id) == [[1, 1], [1, 2]]


def test_slices_of_one_log_give_the_same_as_one_slice(store, append, create_projection):
    """A projection after every batch, each by another projector, and one projection at the end."""
    batches = [{"step": number, "scalars": {"warn": float(number % 3)}} for number in range(1, 8)]
    for batch in batches:
        sliced = append(run="sliced", records=[batch])
        _project(store, create_projection(), sliced)
        whole = append(run="whole", records=[batch])
    _project(store, create_projection(), whole)
    assert _seen(store, sliced) == _seen(store, whole)
    with store.read() as repositories:
        of_both = [repositories.alerts.firing(run_id) for run_id in (sliced, whole)]
        assert [[(a.kind, a.opened_step) for a in firing] for firing in of_both] == [[("scripted", 7)]] * 2


def test_a_rank_is_not_missing_while_its_record_waits_in_the_log(store, append, create_projection, clock):
    """The projector was stopped for longer than the deadline of a step; detection saw it without the record."""
    append(rank=1, world_size=2, records=[{"step": 1}])
    _project(store, create_projection(), append(rank=1, world_size=2, records=[{"step": 2}]))
    append(rank=0, world_size=2, records=[{"step": 1, "scalars": {"warn": 1.0}}])
    run_id = append(rank=1, world_size=2, records=[{"step": 3}])
    clock.now += Settings().step_deadline_seconds
    _project(store, create_projection(), run_id)
    with store.read() as repositories:
        (alert,) = repositories.alerts.page(limit=9, run_id=run_id)
    assert (alert["kind"], alert["opened_step"]) == ("scripted", 1)
    assert _seen(store, run_id) == [[1, 1], [1, 2]]  # no record of step 2 was stored by its deadline


def test_a_run_that_begins_anew_waits_for_no_end_of_the_log_that_was_deleted(store, append):
    """The old log was longer; the new one is read to where it ended, and not to the end of the old one."""
    run_id, read_times = append(records=[{"step": 1}]), ReadTimes()
    with store.read() as repositories:
        run = repositories.runs.find(run_id)
    for position, log_end, now, expected in ((1, 1_000, 1.0, -math.inf), (1, 2, 2.0, -math.inf), (2, 3, 3.0, 2.0)):
        assert read_times.read_time(replace(run, position=position, log_end=log_end), now=now) == expected


def test_a_step_waits_for_no_dead_rank_though_the_log_grows_faster_than_it_is_read(
    store, append, create_projection, clock
):
    """The log is never read to its end, but it is to the end that it had at the deadline."""
    projection, behind = create_projection(), []
    append(rank=0, world_size=2, records=[{"step": 0}])
    for step in range(1, 40):
        run_id = append(rank=0, world_size=2, records=[{"step": step}])
        behind.append(projection.project(store, run_id, is_smallest=True).has_more)
        clock.now += 10
    assert all(behind)
    assert _seen(store, run_id)[:3] == [[1, 0], [1, 1], [1, 2]]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_step_that_is_sent_anew_after_retention_has_removed_it_is_merged_of_what_is_sent_anew(
    store, append, create_projection, is_restarted
):
    """A trainer resumes a run that was silent for long: its old records are empty, and each rank reports again."""
    share = {"loss": {"type": "moments", "sum": 2.0, "count": 1}}
    both = [{"rank": rank, "world_size": 2} for rank in (0, 1)]
    for rank in both:
        run_id = append(records=[{"step": step, "summaries": share} for step in range(3)], **rank)
    projection = create_projection()
    _project(store, projection, run_id)
    with store.write() as repositories:
        assert repositories.record_thinning.thin_records(run_id, kept_steps=0, limit=100) == (6, False)
        assert repositories.step_thinning.thin_steps(run_id, most=2) == (1, None)
    for number, rank in enumerate(both):
        summaries = {"loss": {"type": "moments", "sum": 6.0 + 2.0 * number, "count": 1}}
        append(records=[{"step": 1, "seq": 9, "summaries": summaries}], **rank)
        _project(store, create_projection() if is_restarted else projection, run_id)
    with store.read() as repositories:
        assert repositories.waiting.first(run_id, limit=1) == {}
        (step,) = (each for each in repositories.steps.page(run_id, from_step=0, limit=9) if each.step == 1)
    assert step.signals == {"loss": 7.0}


def test_a_run_belongs_to_one_projector_until_its_time_is_over(store, append, create_projection, clock):
    """The second projector takes the run over three seconds after the last slice of the first one."""
    run_id = append(records=[{"step": 1}])
    first, second = create_projection(owner="first"), create_projection(owner="second")
    assert _project(store, first, run_id) is not None
    assert _project(store, second, run_id) is None
    clock.now += OWNER_SECONDS
    assert _project(store, second, run_id) is not None


def test_complete_steps_that_a_killed_projector_has_left_are_found_by_the_next_one(
    store, append, create_projection, clock
):
    """The killed projector had read the whole log, and had processed one of the three steps of its last batch."""
    run_id = append(records=[{"step": step} for step in (1, 2, 3)])
    killed, survivor = create_projection(owner="killed"), create_projection(owner="survivor")
    assert killed.project(store, run_id, is_smallest=True).has_more
    assert [(each.run_id, each.position == each.log_end) for each in _behind(store)] == [(run_id, True)]
    assert _unprojected(store) == 2
    clock.now += OWNER_SECONDS
    assert not _project(store, survivor, run_id).has_more
    assert _seen(store, run_id) == [[1, 1], [1, 2], [1, 3]]
    assert (_behind(store), _unprojected(store)) == ([], 0)


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_batch_with_late_records_and_a_new_step_gives_the_same_after_a_kill_in_the_middle_of_it(
    store, append, create_projection, world_size
):
    """The killed projector had merged one of two late records. The new step is detected with its signals."""
    for rank in range(world_size):
        run_id = append(records=[{"step": 1}, {"step": 2}], rank=rank, world_size=world_size)
    assert not create_projection().project(store, run_id).has_more
    corrected = [{"step": step, "seq": 9 + step, "scalars": {"late": 1.0}} for step in (1, 2)]
    for rank in range(world_size):
        new = {"step": 3, "seq": 13, "scalars": {"warn": 1.0}}
        append(records=[*corrected, new], rank=rank, world_size=world_size)
    assert create_projection().project(store, run_id, is_smallest=True).has_more
    survivor = create_projection()
    while survivor.project(store, run_id, is_smallest=True).has_more:
        pass
    assert _seen(store, run_id) == [[1, 1], [1, 2], [1, 3]]
    with store.read() as repositories:
        assert [alert.opened_step for alert in repositories.alerts.firing(run_id)] == [3]
        signals = [step.signals for step in repositories.steps.page(run_id, from_step=0, limit=9)]
    assert signals == [{"late": 1.0}, {"late": 1.0}, {"warn": 1.0}]


def test_a_run_is_not_stalled_while_its_steps_wait_to_be_projected(store, append, create_projection, clock):
    """The projector was away, and its first slice ends before the record with which a step is complete."""
    for rank in (0, 1):
        run_id = append(records=[{"step": 1}], rank=rank, world_size=2)
    projection = create_projection()
    assert not _project(store, projection, run_id).has_more
    clock.now += 400.0
    for rank in (0, 1):
        append(records=[{"step": 2}], rank=rank, world_size=2)
    while projection.project(store, run_id, is_smallest=True).has_more:
        pass
    with store.read() as repositories:
        assert repositories.alerts.page(limit=9, run_id=run_id) == []
    clock.now += 3_000.0  # more than five times the time between the two steps
    _project(store, projection, run_id)
    with store.read() as repositories:
        assert [alert.kind for alert in repositories.alerts.firing(run_id)] == ["telemetry_stale"]


def test_a_step_that_waits_for_a_rank_is_nothing_to_do(store, append, create_projection):
    """Only its record or its deadline can complete it."""
    run_id = append(records=[{"step": 1}], rank=0, world_size=2)
    assert not _project(store, create_projection(), run_id).has_more
    assert (_behind(store), _unprojected(store)) == ([], 0)


def test_a_released_run_is_free_at_once(store, append, create_projection):
    """A collector that stops leaves its runs to the others."""
    run_id = append(records=[{"step": 1}])
    first, second = create_projection(owner="first"), create_projection(owner="second")
    _project(store, first, run_id)
    with store.write() as repositories:
        first.release(repositories)
    assert _project(store, second, run_id) is not None


def test_an_unknown_run_is_nothing_to_do(store, create_projection):
    """The run may have been deleted after it was announced to the projector."""
    assert _project(store, create_projection(), "unknown") is None
