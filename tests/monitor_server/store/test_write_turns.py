"""Threads write one after the other, in the order in which they asked, and none waits without end."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from monitor_server.store.sqlite.write_turns import FairLock, TurnOverdueError
from tests.live import eventually


def _take(turns, taken, name):
    with turns:
        taken.append(name)


def test_turns_come_in_the_order_in_which_they_were_asked_for():
    """The second thread goes before the third, whichever the system wakes first."""
    turns, taken = FairLock(limit_seconds=60), []
    with ThreadPoolExecutor(3) as threads, turns:
        for place in range(3):
            threads.submit(_take, turns, taken, place)
            eventually(lambda place=place: turns.waiting == place + 1)
    assert taken == [0, 1, 2]


def test_who_comes_while_a_turn_lasts_too_long_is_refused_at_once():
    """The refusal has the duration; when the turn ends, turns go on."""
    now = 0.0
    turns, taken = FairLock(limit_seconds=12, monotonic=lambda: now), []
    with turns:
        now = 100.0
        with pytest.raises(TurnOverdueError, match="has not ended for 100 s"):
            _take(turns, taken, "refused")
    now = 101.0
    _take(turns, taken, "later")
    assert taken == ["later"]


def test_a_turn_that_does_not_come_is_no_longer_waited_for():
    """The turn then goes to those who wait still, and none is lost."""
    turns, taken = FairLock(limit_seconds=0.05), []
    with ThreadPoolExecutor(1) as threads:
        with turns:
            with pytest.raises(TurnOverdueError, match=r"within 0\.05 s"):
                threads.submit(_take, turns, taken, "impatient").result()
            assert turns.waiting == 0
        _take(turns, taken, "next")
    assert taken == ["next"]


def test_turns_are_handed_over_while_others_give_up():
    """A thread that gives up at the moment at which its turn comes keeps it, and no turn stays without an end."""
    turns, taken, refused = FairLock(limit_seconds=0.001), [], []
    inside = threading.Lock()

    def write(name):
        for _ in range(200):
            try:
                with turns:
                    assert inside.acquire(blocking=False)
                    taken.append(name)
                    inside.release()
            except TurnOverdueError:
                refused.append(name)

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(write, name) for name in range(8)]:
            done.result()
    assert len(taken) + len(refused) == 1_600
    _take(turns, taken, "last")
    assert taken[-1] == "last"
