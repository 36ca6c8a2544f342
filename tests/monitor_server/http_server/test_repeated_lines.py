"""Warnings of the HTTP server are logged once a minute."""

import logging

from monitor_server.http_server import server
from monitor_server.http_server.server import RepeatedLines


def _record(line, level=logging.WARNING):
    return logging.LogRecord("uvicorn.error", level, "", 0, line, (), None)


def test_a_warning_is_passed_once_a_minute_and_an_error_always():
    """Errors are defects of ours or of uvicorn, and each is worth a line."""
    now = 0.0
    lines = RepeatedLines(monotonic=lambda: now)
    assert [lines.filter(_record("invalid")) for _ in range(2)] == [True, False]
    assert all(lines.filter(_record("failed", logging.ERROR)) for _ in range(2))
    now = 61.0
    assert lines.filter(_record("invalid"))


def test_a_bounded_number_of_warnings_is_remembered(monkeypatch):
    """A library that wrote a client's text into its warnings would otherwise fill the memory."""
    monkeypatch.setattr(server, "MOST_LINES", 3)
    lines = RepeatedLines(monotonic=lambda: 0.0)
    assert all(lines.filter(_record(f"warning {number}")) for number in range(4))
    assert [lines.filter(_record(f"warning {number}")) for number in (3, 2, 1)] == [False] * 3
    assert lines.filter(_record("warning 0"))
