"""The ownership of runs among projectors whose machines have different clocks."""

import pytest

from monitor_server.step_processing import ownership
from monitor_server.step_processing.ownership import OWNER_SECONDS, Ownership

HOURS = 6 * 3_600.0


def _look(projector, store, *, is_idle=True):
    """The work of a projector at a tick: it reads which runs are behind."""
    with store.read() as repositories:
        behind = repositories.projection_queue.behind(limit=100)
    return projector.share(store, behind, is_idle=is_idle)


def _owners(store, run_ids):
    with store.read() as repositories:
        return [repositories.runs.find(run_id).owner for run_id in run_ids]


@pytest.fixture
def run_id(append):
    """A run with a step to project."""
    return append(records=[{"step": 0, "scalars": {"a": 1.0}}])


def test_a_run_of_a_dead_owner_whose_clock_was_hours_ahead_is_taken_over_in_seconds(store, run_id, clock):
    """Its time lies far ahead; that it stays the same is seen on a clock that is never set."""
    seconds = [0.0]
    ahead = Ownership("ahead", clock=lambda: clock.now + HOURS)
    other = Ownership("other", clock=clock, monotonic=lambda: seconds[0])
    assert ahead.claim(store, run_id)
    assert not other.claim(store, run_id)
    seconds[0] += OWNER_SECONDS / 2
    assert not other.claim(store, run_id)
    seconds[0] += OWNER_SECONDS / 2
    assert other.claim(store, run_id)
    with store.read() as repositories:
        assert repositories.runs.find(run_id).owner == "other"


def test_an_owner_that_is_alive_keeps_its_run_whatever_its_clock_shows(store, run_id, clock):
    """Each of its slices changes the time of the claim, and a claim on an earlier time is refused."""
    seconds = [0.0]
    other = Ownership("other", clock=clock, monotonic=lambda: seconds[0])
    with store.write() as repositories:
        assert repositories.projection_queue.claim(run_id, "ahead", now=clock.now, until=clock.now + HOURS)
    for number in range(1, 5):
        assert not other.claim(store, run_id)
        seconds[0] += OWNER_SECONDS
        with store.write() as repositories:
            queue, until = repositories.projection_queue, clock.now + HOURS
            assert queue.claim(run_id, "ahead", now=clock.now, until=until + number)
            assert not queue.claim(run_id, "other", now=clock.now, until=clock.now, abandoned=("ahead", until))


@pytest.fixture
def late_runs(append, store, clock):
    """Five runs of a projector, "busy", that has not come to any of them yet."""
    run_ids = [append(run=f"run {number}", records=[{"step": 0, "scalars": {"a": 1.0}}]) for number in range(5)]
    busy = Ownership("busy", clock=clock)
    assert all(busy.claim(store, run_id) for run_id in run_ids)
    return run_ids


def test_a_projector_with_nothing_to_do_takes_half_of_the_runs_that_wait_since_the_last_look(store, late_runs, clock):
    idle = Ownership("idle", clock=clock)
    assert _look(idle, store) == 0  # no projector has measured yet how long they wait
    assert _look(idle, store, is_idle=False) == 0
    assert _look(idle, store) == 2
    assert sorted(_owners(store, late_runs)) == ["busy"] * 3 + ["idle"] * 2
    assert _look(idle, store) == 1
    assert _look(idle, store) == 1
    assert _look(idle, store) == 0  # the last one stays where it is
    assert sorted(_owners(store, late_runs)) == ["busy"] + ["idle"] * 4


def test_all_runs_of_a_dead_owner_whose_clock_was_ahead_are_taken_over(store, append, clock, monkeypatch):
    """They are more than a projector keeps of its own runs: each look at one of them must not forget the others."""
    monkeypatch.setattr(ownership, "MAX_OWNED_RUNS", 3)
    seconds = [0.0]
    run_ids = [append(run=f"run {number}", records=[{"step": 0}]) for number in range(5)]
    ahead = Ownership("ahead", clock=lambda: clock.now + HOURS)
    other = Ownership("other", clock=clock, monotonic=lambda: seconds[0])
    assert all(ahead.claim(store, run_id) for run_id in run_ids)
    assert not any(other.claim(store, run_id) for run_id in run_ids)
    seconds[0] += OWNER_SECONDS
    assert [other.claim(store, run_id) for run_id in run_ids] == [True] * 5


def test_no_more_runs_of_others_are_watched_than_there_is_room_for(store, late_runs, clock, monkeypatch):
    """Two of five; the runs that are not watched are found at a later look."""
    monkeypatch.setattr(ownership, "MAX_OTHER_RUNS", 2)
    idle = Ownership("idle", clock=clock)
    for run_id in late_runs:
        assert not idle.claim(store, run_id)
        assert 0 < idle.watched_runs <= 2
    assert _look(idle, store) == 0
    assert idle.late_runs == 2
    assert _look(idle, store) == 1


def test_runs_whose_records_are_projected_between_two_looks_stay_where_they_are(store, late_runs, append, clock):
    """Each has something to do at every look, as a run that is live has; what waited at the last look is done."""
    idle = Ownership("idle", clock=clock)
    for step in range(1, 4):
        assert _look(idle, store) == 0
        for number, run_id in enumerate(late_runs):
            with store.write() as repositories:
                run = repositories.runs.lock(run_id)
                run.position = run.log_end
                repositories.runs.save_projection(run)
            append(run=f"run {number}", records=[{"step": step, "scalars": {"a": 1.0}}])
    assert _owners(store, late_runs) == ["busy"] * 5


def test_runs_behind_are_read_some_at_a_time_and_each_in_its_turn(store, late_runs):
    """The lowest number follows the highest one, so that no run is left out, wherever the reader continues."""
    with store.read() as repositories:
        queue = repositories.projection_queue
        first = queue.behind(limit=2)
        second = queue.behind(after=first[-1].number, limit=2)
        third = queue.behind(after=second[-1].number, limit=2)
    found = [each.run_id for each in (*first, *second, *third)]
    assert found == [*late_runs, late_runs[0]]


def test_a_late_run_is_known_at_a_look_at_other_runs(store, late_runs, clock):
    """Where many runs are behind, a projector sees other ones at each look, and each again after some looks."""
    idle = Ownership("idle", clock=clock)
    with store.read() as repositories:
        behind = repositories.projection_queue.behind(limit=100)
    assert idle.share(store, behind[:3], is_idle=True) == 0
    assert idle.share(store, behind[3:], is_idle=True) == 0
    assert idle.share(store, behind[:3], is_idle=True) == 1
    assert idle.share(store, behind[3:], is_idle=True) == 1
    assert _owners(store, late_runs).count("idle") == 2


def test_of_two_projectors_with_nothing_to_do_each_run_is_taken_by_one(store, late_runs, clock):
    """The second one has read the owners before the first one took the runs."""
    first, second = Ownership("first", clock=clock), Ownership("second", clock=clock)
    assert _look(first, store) == _look(second, store) == 0
    with store.read() as repositories:
        behind = repositories.projection_queue.behind(limit=100)
    assert first.share(store, behind, is_idle=True) == 2
    assert second.share(store, behind, is_idle=True) == 0
    assert sorted(_owners(store, late_runs)) == ["busy"] * 3 + ["first"] * 2


def test_an_owner_that_is_alive_keeps_runs_that_wait_longer_than_its_ownership_lasts(store, late_runs, clock):
    """Another projector with work of its own asks for them all the time."""
    busy, other = Ownership("busy", clock=clock), Ownership("other", clock=clock)
    for _ in range(5):
        _look(busy, store, is_idle=False)
        _look(other, store, is_idle=False)
        clock.now += OWNER_SECONDS / 3
        assert not any(other.claim(store, run_id) for run_id in late_runs)
    clock.now += OWNER_SECONDS
    assert other.claim(store, late_runs[0])


def test_nothing_is_written_for_runs_that_do_not_wait(store, late_runs, clock):
    """A run without waiting steps, or in quarantine, is free for any projector once its ownership has ended."""
    busy = Ownership("busy", clock=clock)
    with store.write() as repositories:
        projected, quarantined = (repositories.runs.lock(run_id) for run_id in late_runs[:2])
        projected.position, until = projected.log_end, projected.owned_until
        quarantined.quarantined_at = clock.now
        for run in (projected, quarantined):
            repositories.runs.save_projection(run)
    clock.now += OWNER_SECONDS / 2
    _look(busy, store)
    with store.read() as repositories:
        kept = [repositories.runs.find(run_id).owned_until for run_id in late_runs]
    assert kept == [until] * 2 + [clock.now + OWNER_SECONDS] * 3
