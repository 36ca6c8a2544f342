"""Measures the share of the last seconds in which a thread has worked, and whether waiting for it is worthwhile."""

import math
from typing import Final

__all__ = ["BusyShare"]

# The weight of a moment falls by a factor of e within this many seconds.
MEMORY_SECONDS: Final = 0.5
BUSY_FROM: Final = 0.4
# Senders that wait for verdicts send less, and senders that do not wait send more. A single bound would switch between
# the two states all the time.
BUSY_UNTIL: Final = 0.2


class BusyShare:
    """The share of the time in which a thread has worked. That thread reports it; any thread may read it."""

    def __init__(self) -> None:
        self._share = 0.0
        self._is_busy = False

    @property
    def is_busy(self) -> bool:
        """Whether the share has passed `BUSY_FROM` and has not fallen below `BUSY_UNTIL` since."""
        return self._is_busy

    def note(self, seconds: float, *, is_working: bool) -> None:
        """Note that the thread has worked for some seconds, or has had nothing to do in them."""
        kept = math.exp(-max(0.0, seconds) / MEMORY_SECONDS)
        self._share = kept * self._share + (1.0 - kept) * is_working
        self._is_busy = self._share >= (BUSY_UNTIL if self._is_busy else BUSY_FROM)
