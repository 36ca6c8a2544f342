"""The log of the collector stays bounded for any requests."""

import json
import logging
import sys

import pytest

from monitor_server.instrumentation.collector_log import MOST_MESSAGES, LineLimit, line_handler
from monitor_server.instrumentation.request_ids import REQUEST_ID


@pytest.fixture
def lines():
    """A logger with a limit, its clock, and its logged lines."""
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


def test_messages_that_never_repeat_take_no_memory(lines):
    """A library may format the address of an object into each of its messages."""
    log, _, logged = lines
    for place in range(MOST_MESSAGES + 500):
        log.error(f"the task at {place:#x} has failed")  # noqa: G004 - as such a library does
    (limit,) = log.handlers[0].filters
    assert len(logged) == MOST_MESSAGES + 500
    assert limit.messages == MOST_MESSAGES


def test_a_server_logs_through_the_limit():
    """The text of a client cannot forge a line of the log."""
    handler = line_handler()
    assert [type(each) for each in handler.filters] == [LineLimit]
    record = logging.LogRecord("a", logging.WARNING, "", 0, "x\ny", (), None)
    assert handler.format(record) == r"WARNING a: x\ny"


def test_a_line_of_json_has_its_fields_and_cannot_be_forged():
    """Line ends and quotes of others are escaped; the traceback and the id of the request are fields."""
    formatter = line_handler("json").formatter
    token = REQUEST_ID.set("abc")
    try:
        float('x"}\n{"level": "info')
    except ValueError:
        record = logging.LogRecord("a.b", logging.ERROR, "", 0, "failed: %s", ('y"\nz',), sys.exc_info())
        line = formatter.format(record)
    finally:
        REQUEST_ID.reset(token)
    assert "\n" not in line
    fields = json.loads(line)
    assert {name: fields[name] for name in ("level", "logger", "message", "request")} == {
        "level": "error", "logger": "a.b", "message": 'failed: y"\\nz', "request": "abc",
    }  # fmt: skip
    assert fields["exception"].startswith("Traceback")
    assert fields["time"].endswith("+00:00")


def test_a_line_of_text_ends_with_the_request_that_caused_it():
    """Outside of requests it has none."""
    formatter = line_handler().formatter
    record = logging.LogRecord("a", logging.WARNING, "", 0, "x", (), None)
    token = REQUEST_ID.set("abc")
    inside = formatter.format(record)
    REQUEST_ID.reset(token)
    assert (inside, formatter.format(record)) == ("WARNING a: x (request abc)", "WARNING a: x")
