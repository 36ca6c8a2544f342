"""Logs commits that fail: the first of a fault at once, and then one line a minute, however many senders try again."""

import logging
import time
from collections.abc import Callable
from typing import Final

from monitor_server.errors import Unavailable

__all__ = ["FailureLog"]

log = logging.getLogger(__name__)

# A disk that is full must not be filled by the lines that say so.
REPEAT_SECONDS: Final = 60.0
MOST_REASONS: Final = 20


class FailureLog:
    """Keeps what was said of the fault under way. For one thread.

    Args:
        monotonic: A clock in seconds.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._said: dict[str, float] = {}  # when each reason of the fault under way was said last
        self._since = 0.0
        self._failures = 0

    def failed(self, error: Exception) -> None:
        """Log that a commit has failed, unless the same was said a short time ago; called where the error is caught."""
        if not isinstance(error, Unavailable):  # a defect, whose place is of interest
            log.error("a commit failed; its batches were not acknowledged", exc_info=error)
            return
        now, reason = self._monotonic(), str(error)
        if not self._failures:
            self._since = now
        self._failures += 1
        said_at = self._said.get(reason)
        if len(self._said) == MOST_REASONS if said_at is None else now - said_at < REPEAT_SECONDS:
            return
        self._said[reason] = now
        log.error(
            "a commit failed; its batches were not acknowledged: %s (commits that have failed since %.0f s ago: %d)",
            reason,
            now - self._since,
            self._failures,
        )

    def succeeded(self) -> None:
        """Log that commits succeed again, where they had failed."""
        if not self._failures:
            return
        log.warning(
            "commits succeed again, after %d that failed within %.0f s", self._failures, self._monotonic() - self._since
        )
        self._failures = 0
        self._said.clear()
