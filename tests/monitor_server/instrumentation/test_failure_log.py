"""The log lines of failing work, on a clock of the test."""

import pytest

from monitor_server.errors import Unavailable
from monitor_server.instrumentation.failure_log import MOST_REASONS, RECENT_SECONDS, REPEAT_SECONDS, FailureLog

FULL = Unavailable("the store cannot write: database or disk is full; send again later")
LOCKED = Unavailable("the store cannot write: database is locked; send again later")


@pytest.fixture
def failures():
    """A log, and the seconds of its clock."""
    seconds = [0.0]
    says = "a commit failed; its batches were not acknowledged"
    return FailureLog(says=says, work="commits", monotonic=lambda: seconds[0]), seconds


def test_a_fault_is_said_at_once_and_then_once_a_minute(failures, caplog):
    """Senders may try again at any rate; another fault is logged at once as well, and so is the end."""
    log, seconds = failures
    for number in range(100):
        log.note_failure(FULL)
        seconds[0] += REPEAT_SECONDS / 100 if number else 0.5
    log.note_failure(LOCKED)
    log.note_success()
    log.note_success()
    first, other, end = (record.getMessage() for record in caplog.records)
    assert first.startswith("a commit failed; its batches were not acknowledged: the store cannot write: database or d")
    assert "database is locked" in other
    assert end == "commits succeed again, after 101 that failed within 60 s"
    caplog.clear()
    seconds[0] = 1_000.0
    log.note_failure(FULL)
    seconds[0] += REPEAT_SECONDS
    log.note_failure(FULL)
    assert ["(commits that have failed since" in record.getMessage() for record in caplog.records] == [True, True]
    assert "since 60 s ago: 2)" in caplog.records[-1].getMessage()
    assert not any(record.exc_info for record in caplog.records)


def test_faults_that_take_turns_are_said_once_each(failures, caplog):
    """Their number stays small enough to be read."""
    log, _ = failures
    for _ in range(3):
        for number in range(MOST_REASONS + 5):
            log.note_failure(Unavailable(f"fault {number}"))
    assert len(caplog.records) == MOST_REASONS


def _failing(code, text="raise KeyError"):
    """Return the error of a defect; its place in the code is the given text's."""
    with pytest.raises(KeyError) as caught:
        exec(compile(text, code, "exec"), {"__name__": "monitor_server.here"})  # noqa: S102 - our own text
    return caught.value


def test_a_defect_is_logged_with_its_place_once_a_minute(failures, caplog):
    """It is no fault of the database, and other work may succeed meanwhile; another place is logged at once."""
    log, seconds = failures
    for _ in range(3):
        log.note_failure(_failing("here"))
        log.note_success()
    log.note_failure(_failing("there"))
    assert [record.exc_info is not None for record in caplog.records] == [True, True]
    seconds[0] += REPEAT_SECONDS
    for number in range(2 * MOST_REASONS):
        log.note_failure(_failing(f"place {number}"))
    assert len(caplog.records) == 2 + MOST_REASONS


def test_defects_that_end_in_one_line_of_a_library_are_two(failures, caplog):
    log, _ = failures
    for code in ("here", "there", "here"):
        log.note_failure(_failing(code, "import os; os.environ['RLVITALS_NOTHING']"))
    assert len(caplog.records) == 2


def test_the_newest_failure_is_known_until_work_succeeds_or_nothing_has_failed_for_a_while(failures):
    log, seconds = failures
    assert log.recent is None
    log.note_failure(FULL)
    assert log.recent == str(FULL)
    log.note_failure(KeyError("x"))
    assert log.recent == "a commit failed; its batches were not acknowledged; the log says why"
    log.note_success()
    assert log.recent is None
    log.note_failure(FULL)
    seconds[0] += RECENT_SECONDS
    assert log.recent is None
