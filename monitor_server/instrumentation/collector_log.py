"""The lines of the collector's log: no client can forge one, or fill a disk with them."""

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

from monitor_server.durations import MINUTE_SECONDS
from monitor_server.instrumentation.request_ids import REQUEST_ID
from monitor_server.text_safety.printable import PrintableFormatter, printable

__all__ = ["JsonFormatter", "LineLimit", "line_handler"]

# A request could cause a line ten thousand times at once. Such a line is logged at most this often in a minute.
MOST_LINES = 20
# Our own messages are a few hundred. Those of asyncio contain the address of an object, so that each is a new one.
MOST_MESSAGES = 1_000


class LineLimit(logging.Filter):
    """Passes `MOST_LINES` of each message in a minute; the first line of the next minute states how many were dropped.

    Two lines have the same message if they differ only in the inserted values.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._begun: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()

    @property
    def messages(self) -> int:
        """The number of messages whose lines are counted, at most `MOST_MESSAGES`."""
        return len(self._begun)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is logged."""
        now, key = self._clock(), (record.name, str(record.msg))
        begun, count = self._begun.get(key, (now, 0))
        if now - begun >= MINUTE_SECONDS:
            left_out = count - MOST_LINES
            if left_out > 0:
                record.msg = f"{record.getMessage()} (and {left_out} such lines in the minute before)"
                record.args = ()
            begun, count = now, 0
        self._begun[key] = begun, count + 1
        if len(self._begun) > MOST_MESSAGES:
            self._begun.popitem(last=False)
        return count < MOST_LINES


class LineFormatter(PrintableFormatter):
    """Formats a record as a line of text, which ends with the id of the request that caused it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Format the first line."""
        line, request = super().formatMessage(record), REQUEST_ID.get()
        return line if request is None else f"{line} (request {request})"


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: time, level, logger, message, and any request and exception.

    JSON escapes line ends, so that text of a client cannot look like another line.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": printable(record.getMessage()),
        }
        request = REQUEST_ID.get()
        if request is not None:
            fields["request"] = request
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack"] = self.formatStack(record.stack_info)
        return json.dumps(fields)


def line_handler(form: Literal["text", "json"] = "text") -> logging.Handler:
    """Return the handler of a server's log, which writes to stderr."""
    handler = logging.StreamHandler()
    plain = LineFormatter("%(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if form == "json" else plain)
    handler.addFilter(LineLimit())
    return handler
