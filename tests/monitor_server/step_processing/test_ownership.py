"""Who owns a run among projectors whose machines have different clocks."""

import pytest

from monitor_server.step_processing.ownership import OWNER_SECONDS, Ownership

HOURS = 6 * 3_600.0


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
    """Each slice of it makes its time another, and a claim of what was seen before is refused."""
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
