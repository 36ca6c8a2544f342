"""The lines of the collector's log: none can be forged, and nobody can fill a disk with them."""

import logging
import time
from collections.abc import Callable

from monitor_server.printable import PrintableFormatter

__all__ = ["LineLimit", "line_handler"]

# What a request can cause ten thousand times at once is logged so often in a minute.
MOST_LINES = 20
MINUTE_SECONDS = 60.0


class LineLimit(logging.Filter):
    """Lets `MOST_LINES` of each message of a logger through in a minute; the first of the next says how many were not.

    Two lines are of one message if they differ only in the values that are put in.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._begun: dict[tuple[str, str], tuple[float, int]] = {}

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
        return count < MOST_LINES


def line_handler() -> logging.Handler:
    """Return the handler of a server's log, which writes to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(PrintableFormatter("%(levelname)s %(name)s: %(message)s"))
    handler.addFilter(LineLimit())
    return handler
