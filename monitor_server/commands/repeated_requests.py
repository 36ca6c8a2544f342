"""Repeats a request that a collector is too busy for, after the time that the collector states."""

from collections.abc import Callable
from time import monotonic, sleep
from typing import Final, TypeVar

from monitor_server.commands.errors import RequestRefusedError

__all__ = ["repeat_while_busy"]

# The statuses of HTTP with which a collector asks to send a request again later.
IS_BUSY: Final = {429, 503}
BUSY_SECONDS: Final = 120.0

Answered = TypeVar("Answered")


def repeat_while_busy(ask: Callable[[], Answered]) -> Answered:
    """Return the answer to a request, which is repeated for `BUSY_SECONDS` while the collector is too busy."""
    until = monotonic() + BUSY_SECONDS
    while True:
        try:
            return ask()
        except RequestRefusedError as refusal:
            if refusal.status not in IS_BUSY or monotonic() > until:
                raise
            sleep(refusal.seconds)
