"""Two projectors of one run: a paused or disconnected projector writes nothing, and nothing is lost."""

import msgspec
import psycopg
import pytest
from sqlalchemy import text

from monitor_server.errors import ProjectedElsewhere, Unavailable
from monitor_server.ingest.reset import reset_run
from monitor_server.step_processing.ownership import OWNER_SECONDS
from tests.monitor_server.interrupted_stores import Between
from tests.store_connections import current_connection


def _stored(store, run_id):
    with store.read() as repositories:
        seen = msgspec.msgpack.decode(repositories.detector_states.load(run_id).state)["seen"]
        steps = [step.step for step in repositories.steps.page(run_id, from_step=0, limit=100)]
        alerts = repositories.alerts.page(limit=100, run_id=run_id)
        return seen, steps, [(alert["kind"], alert["opened_step"]) for alert in alerts]


def _position(store, run_id):
    with store.read() as repositories:
        return repositories.runs.find(run_id).position


def _warn(*steps):
    return [{"step": step, "scalars": {"warn": float(step == 1)}} for step in steps]


def test_a_projector_that_was_paused_writes_nothing(store, append, create_projection, clock):
    """It resumes after another one has taken over its run: its slice is refused, and then read again."""
    run_id = append(records=_warn(0, 1))
    paused, other = create_projection(owner="paused"), create_projection(owner="other")
    assert paused.project(store, run_id) is not None
    append(records=_warn(2, 3))

    def take_over():
        assert other.project(store, run_id) is None  # the run still belongs to the paused one
        clock.now += OWNER_SECONDS
        assert other.project(store, run_id) is not None

    with pytest.raises(ProjectedElsewhere):
        paused.project(Between(store, before=take_over), run_id)
    paused.forget(run_id)
    append(records=_warn(4))
    assert paused.project(store, run_id) is None
    clock.now += OWNER_SECONDS
    assert paused.project(store, run_id) is not None
    assert _stored(store, run_id) == ([[1, step] for step in range(5)], list(range(5)), [("scripted", 1)])


def _take(store, run_id, owner, clock):
    with store.write() as repositories:
        run, queue = repositories.runs.find(run_id), repositories.projection_queue
        held = (run.owner, run.owned_until)
        assert queue.claim(run_id, owner, now=clock.now, until=clock.now + OWNER_SECONDS, abandoned=held)


def test_a_slice_under_way_is_kept_when_the_run_is_taken_and_the_run_goes_to_who_took_it(
    store, append, create_projection, clock
):
    """The owner is behind; another one takes the run between its snapshot and its commit, and nothing is done twice."""
    run_id = append(records=_warn(0, 1))
    busy, idle = create_projection(owner="busy"), create_projection(owner="idle")
    assert busy.project(store, run_id) is not None
    append(records=_warn(2))
    assert busy.project(Between(store, before=lambda: _take(store, run_id, "idle", clock)), run_id) is not None
    append(records=_warn(3))
    assert busy.project(store, run_id) is None
    assert idle.project(store, run_id) is not None
    assert _stored(store, run_id) == ([[1, step] for step in range(4)], list(range(4)), [("scripted", 1)])


def test_an_owner_that_believes_in_its_ownership_leaves_a_run_that_was_taken(store, append, create_projection, clock):
    run_id = append(records=_warn(0, 1))
    busy, idle = create_projection(owner="busy"), create_projection(owner="idle")
    assert busy.project(store, run_id) is not None
    append(records=_warn(2))
    _take(store, run_id, "idle", clock)
    assert busy.project(store, run_id) is None
    assert idle.project(store, run_id) is not None
    assert busy.project(store, run_id) is None
    assert _stored(store, run_id) == ([[1, step] for step in range(3)], list(range(3)), [("scripted", 1)])


def test_two_projectors_that_know_of_no_owner_write_each_step_once(store, append, create_projection):
    """Ownership is a hint: without it the revision alone keeps them apart."""
    run_id = append(records=_warn(0, 1))
    first, second = create_projection(), create_projection()
    with pytest.raises(ProjectedElsewhere):
        first.project(Between(store, before=lambda: second.project(store, run_id)), run_id)
    first.forget(run_id)
    append(records=_warn(2))
    first.project(store, run_id)
    assert _stored(store, run_id) == ([[1, 0], [1, 1], [1, 2]], [0, 1, 2], [("scripted", 1)])


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_connection_lost_in_the_middle_of_a_commit_is_as_if_the_slice_had_not_been(
    store, append, create_projection, database_url
):
    """PostgreSQL ends the connection before the commit: nothing of the slice is there, and it is projected again."""
    run_id, projection = append(records=_warn(0, 1)), create_projection()
    begin = _position(store, run_id)

    def terminate(_):
        own = current_connection().execute(text("SELECT pg_backend_pid()")).scalar_one()
        with psycopg.connect(database_url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", [own])

    with pytest.raises(Unavailable):
        projection.project(Between(store, at_end=terminate), run_id)
    assert _position(store, run_id) == begin
    projection.forget()
    projection.project(store, run_id)
    assert _stored(store, run_id) == ([[1, 0], [1, 1]], [0, 1], [("scripted", 1)])


def test_an_operators_reset_is_not_overwritten_by_a_slice_under_way(store, append, create_projection, clock):
    """The reset counts the revision up, so that the slice computed before it is refused."""
    append(records=_warn(0, 1))
    run_id = append(attempt=2, records=_warn(0))
    projection = create_projection()

    def reset():
        with store.write() as repositories:
            reset_run(repositories, run_id, attempt=1, now=clock.now)

    with pytest.raises(ProjectedElsewhere):
        projection.project(Between(store, before=reset), run_id)
    projection.forget(run_id)
    projection.project(store, run_id)
    assert _stored(store, run_id)[:2] == ([[1, 0], [1, 1]], [0, 1])


def test_a_reset_before_an_attempt_is_projected_lets_the_steps_before_it_wait_for_their_ranks(
    store, append, create_projection, clock
):
    """Rank 0 has what a detector finds, and its record follows that of rank 1 in the log."""
    for rank in (1, 0):
        run_id = append(rank=rank, world_size=2, records=[{"step": 0, "scalars": {"warn": 1.0} if rank == 0 else {}}])
    for attempt in (2, 3):
        append(attempt=attempt, records=_warn(0))
    with store.write() as repositories:
        reset_run(repositories, run_id, attempt=2, now=clock.now)
    create_projection().project(store, run_id)
    assert _stored(store, run_id) == ([[1, 0], [2, 0]], [0], [("scripted", 0)])
