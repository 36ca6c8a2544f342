"""Asks a collector that is too busy again, when it says."""

from collections.abc import Callable
from time import monotonic, sleep
from typing import Final, TypeVar

from monitor_server.commands.errors import RefusedError

__all__ = ["patiently"]

# The numbers of HTTP for what a collector takes later.
IS_BUSY: Final = {429, 503}
BUSY_SECONDS: Final = 120.0

Answered = TypeVar("Answered")


def patiently(ask: Callable[[], Answered]) -> Answered:
    """Return what a collector answers, which is asked again for `BUSY_SECONDS` where it is too busy."""
    until = monotonic() + BUSY_SECONDS
    while True:
        try:
            return ask()
        except RefusedError as refusal:
            if refusal.status not in IS_BUSY or monotonic() > until:
                raise
            sleep(refusal.seconds)
