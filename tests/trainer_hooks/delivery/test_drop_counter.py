"""The counters by reason, and the limit on log lines."""

import logging

import pytest

from trainer_hooks.delivery import DropCounter
from trainer_hooks.delivery.drop_counter import DROPPED_RECORD_REASONS


class StepClock:
    """A clock that stands still until it is moved."""

    now = 0.0

    def __call__(self):
        """Return the time."""
        return self.now


def test_only_records_that_are_lost_for_good_count_as_dropped():
    """Only lost records count: a record in memory may still arrive, and a refused scalar costs no record."""
    drops = DropCounter()
    for reason in (*DROPPED_RECORD_REASONS, "unspooled", "scalars", "rollouts", "responses", "internal_errors"):
        drops.count(reason, "why", by=2)
    assert drops.dropped_records == 2 * len(DROPPED_RECORD_REASONS)
    assert drops["scalars"] == 2


@pytest.mark.usefixtures("swallowed")
def test_an_error_is_counted_with_the_records_that_it_cost(swallowed):
    """An error counts as one internal error, and as many lost records of the given reason."""
    drops = DropCounter()
    drops.count_error(ValueError("bad"), lost="unpacked", by=3)
    assert (drops["internal_errors"], drops["unpacked"], drops.dropped_records) == (1, 3, 3)
    swallowed.clear()


def test_a_reason_is_logged_at_most_once_a_minute(caplog):
    """Every loss is counted, and the line that is logged has the total."""
    clock = StepClock()
    drops = DropCounter(clock)
    with caplog.at_level(logging.WARNING, "trainer_hooks"):
        for clock.now in (0.0, 59.0, 60.0):
            drops.count("rejected", "the collector refused a record")
            drops.count("refused", "the collector refused a batch")
    assert caplog.messages.count("rlvitals: the collector refused a record (rejected: 1 so far)") == 1
    assert caplog.messages[-2:] == [
        "rlvitals: the collector refused a record (rejected: 3 so far)",
        "rlvitals: the collector refused a batch (refused: 3 so far)",
    ]
    assert len(caplog.messages) == 4


def test_what_is_the_same_at_each_step_is_logged_once(caplog):
    """This holds for any length of training; every loss is counted, and other reasons are logged as before."""
    clock = StepClock()
    drops = DropCounter(clock)
    for clock.now in (0.0, 61.0, 1e9):
        drops.count("scalars", "one name too many", by=2, once="names")
    drops.count("scalars", "no number")
    assert drops["scalars"] == 7
    assert caplog.messages == ["rlvitals: one name too many", "rlvitals: no number (scalars: 7 so far)"]


def test_a_text_is_one_printable_line_of_the_log(caplog):
    """A server's answer can neither steer a terminal nor begin a line that looks like another program's."""
    DropCounter().warn("unavailable", "answered 500: \x1b[2J\nERROR root: disk failed")
    assert caplog.messages == ["rlvitals: answered 500: \\x1b[2J\\nERROR root: disk failed"]


def test_a_logging_handler_that_raises_is_the_users_own_matter():
    """Counting never raises."""

    class Failing(logging.Filter):
        def filter(self, _record):
            raise RuntimeError("broken filter")

    failing = Failing()
    logger = logging.getLogger("trainer_hooks")
    logger.addFilter(failing)
    try:
        drops = DropCounter()
        drops.count("scalars", "not a number")
    finally:
        logger.removeFilter(failing)
    assert drops["scalars"] == 1


def test_an_error_whose_text_cannot_be_read_is_counted(caplog, swallowed):
    """A class of the user may raise at any access."""

    class UnreadableError(Exception):
        def __str__(self):
            raise ValueError("no text")

    drops = DropCounter()
    drops.count_error(UnreadableError(), lost="unpacked")
    assert (drops["unpacked"], drops["internal_errors"]) == (1, 1)
    swallowed.clear()
    assert "UnreadableError: (its text cannot be read)" in caplog.text
