"""The busy share of the projector in the last seconds."""

import pytest

from monitor_server.step_processing.scheduling.busy_share import BUSY_FROM, BUSY_UNTIL, BusyShare


def _after(share, *, seconds=30.0, busy_share=None):
    """Return a thread's share after it has worked for a share of each hundredth of a second."""
    noted = busy_share or BusyShare()
    for _ in range(round(seconds / 0.01)):
        noted.note(0.01 * share, is_working=True)
        noted.note(0.01 * (1 - share), is_working=False)
    return noted


@pytest.mark.parametrize(
    ("share", "is_busy"), [(0.0, False), (BUSY_FROM - 0.03, False), (BUSY_FROM + 0.03, True), (1.0, True)]
)
def test_a_thread_that_works_for_more_than_a_share_of_the_time_is_busy(share, is_busy):
    """Without recorded work it is not busy."""
    assert not BusyShare().is_busy
    assert _after(share).is_busy == is_busy


def test_a_busy_thread_remains_so_until_it_has_much_less_to_do():
    """Senders that no longer wait for it give it more work: one bound for both states would make it alternate."""
    between = (BUSY_FROM + BUSY_UNTIL) / 2
    busy = _after(1.0)
    assert _after(between, busy_share=busy).is_busy
    assert not _after(BUSY_UNTIL - 0.03, busy_share=busy).is_busy
    assert not _after(between, busy_share=busy).is_busy


def test_one_long_moment_counts_as_many_short_ones():
    """A slice may take a tenth of a second, and a wait for work as long as a tick."""
    once = BusyShare()
    once.note(30.0, is_working=True)
    assert once.is_busy
    once.note(30.0, is_working=False)
    assert not once.is_busy
    once.note(-1.0, is_working=True)  # a clock that is set back
    assert not once.is_busy
