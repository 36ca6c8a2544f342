"""The order in which runs are projected."""

from monitor_server.step_processing.scheduling.run_queue import BATCHES_BEFORE_BEHIND, TURNS_BEFORE_BEHIND, RunQueue


def _turns(queue, count):
    return [queue.next() for _ in range(count)]


def test_runs_take_turns_in_the_order_in_which_they_came():
    """A run waits once, however often it is added."""
    queue = RunQueue(10)
    assert all(queue.add(run_id) for run_id in ("a", "b", "a"))
    assert (len(queue), "a" in queue, "c" in queue) == (2, True, False)
    assert _turns(queue, 3) == ["a", "b", None]


def test_a_run_with_little_to_do_does_not_wait_for_those_that_are_behind():
    """Twenty runs are behind; the run that comes next has the next turn."""
    queue = RunQueue(100)
    for number in range(20):
        queue.add_behind(f"behind-{number}")
    queue.add("fresh")
    assert _turns(queue, 3) == ["fresh", "behind-0", "behind-1"]


def test_runs_that_are_behind_get_a_turn_however_many_others_come():
    """One run that is behind follows after some turns of the others."""
    queue = RunQueue(1_000)
    queue.add_behind("behind")
    for number in range(2 * TURNS_BEFORE_BEHIND):
        queue.add(f"fresh-{number}")
    assert _turns(queue, len(queue)).index("behind") == TURNS_BEFORE_BEHIND


def test_a_run_that_is_added_during_its_slice_is_behind_nevertheless():
    """A sender without a pause adds its run again at each commit."""
    queue = RunQueue(10)
    queue.add("flood")
    assert queue.next() == "flood"
    queue.add("flood")
    queue.add_behind("flood")
    queue.add("flood")
    queue.add("slow")
    assert _turns(queue, 3) == ["slow", "flood", None]


def test_a_run_for_which_many_batches_have_come_is_behind():
    """It has as much work as a run whose slice has left steps over; other requests for it do not count."""
    queue = RunQueue(10)
    for _ in range(BATCHES_BEFORE_BEHIND + 1):
        queue.add_batch("flood")
        queue.add("asked")
    for _ in range(BATCHES_BEFORE_BEHIND):
        queue.add_batch("slow")
    assert _turns(queue, 4) == ["asked", "slow", "flood", None]


def test_the_queue_is_bounded():
    """Runs that do not fit are found in the store later."""
    queue = RunQueue(2)
    assert [queue.add(run_id) for run_id in ("a", "b", "c", "a")] == [True, True, False, True]
    queue.add_behind("d")
    assert len(queue) == 2
    queue.add_behind("a")
    assert _turns(queue, 3) == ["b", "a", None]
