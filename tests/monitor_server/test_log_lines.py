"""The log of the collector: bounded, whatever is sent."""

import logging

import pytest

from monitor_server.log_lines import LineLimit, line_handler


@pytest.fixture
def lines():
    """A logger with a limit, its clock, and what it has logged."""
    logged, now = [], [0.0]
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())
    handler.addFilter(LineLimit(clock=lambda: now[0]))
    log = logging.Logger("limited")  # noqa: LOG001 - no logger that outlives the test
    log.addHandler(handler)
    return log, now, logged


def test_a_message_is_logged_twenty_times_a_minute(lines):
    """The first of the next minute states how many were left out; other messages are not affected."""
    log, now, logged = lines
    for step in range(10_000):
        log.warning("step %d is far ahead", step)
    log.warning("another")
    assert logged == [*(f"step {step} is far ahead" for step in range(20)), "another"]
    now[0] = 61.0
    log.warning("step %d is far ahead", 7)
    log.warning("step %d is far ahead", 8)
    assert logged[21:] == ["step 7 is far ahead (and 9980 such lines in the minute before)", "step 8 is far ahead"]


def test_a_server_logs_through_the_limit():
    """In lines that nobody can forge."""
    handler = line_handler()
    assert [type(each) for each in handler.filters] == [LineLimit]
    record = logging.LogRecord("a", logging.WARNING, "", 0, "x\ny", (), None)
    assert handler.format(record) == r"WARNING a: x\ny"
