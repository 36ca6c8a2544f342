"""Logs failures of repeated work: a new one at once, and then once a minute.

Faults of the database differ by their reason, and defects by the place in our code, which is logged by a traceback.
"""

import logging
import time
import traceback
from collections.abc import Callable
from typing import Final

from monitor_server.errors import Unavailable

__all__ = ["FailureLog"]

log = logging.getLogger(__name__)

# A full disk must not be filled further by the lines about it.
REPEAT_SECONDS: Final = 60.0
MOST_REASONS: Final = 20
# For this long a failure makes the collector report that it is not ready, unless later work succeeds.
RECENT_SECONDS: Final = 30.0
OUR_PACKAGES: Final = ("monitor_server.", "trainer_hooks.")


class FailureLog:
    """Keeps the lines about the current fault. One thread works; any thread may read the newest failure.

    Args:
        says: The failure and its consequence, as a sentence.
        work: The name of the work, in the plural.
        monotonic: A clock in seconds.
    """

    def __init__(self, *, says: str, work: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._says = says
        self._work = work
        self._monotonic = monotonic
        self._newest: tuple[float, str] | None = None
        self._said: dict[str, float] = {}  # the time of the last line for each reason of the current fault
        self._defects: dict[tuple[str, int], float] = {}  # the time of the last traceback from each place in the code
        self._since = 0.0
        self._failures = 0

    @property
    def recent(self) -> str | None:
        """The reason for which the newest work failed, for a while after it; None if it succeeded."""
        newest = self._newest
        return newest[1] if newest is not None and self._monotonic() - newest[0] < RECENT_SECONDS else None

    def note_failure(self, error: Exception) -> None:
        """Log a failure, unless it was logged a short time ago; called where the error is caught."""
        now, reason = self._monotonic(), str(error)
        if not isinstance(error, Unavailable):  # a defect, so its place in the code is logged
            self._newest = now, f"{self._says}; the log says why"
            if self._is_due(error, now):
                log.error(self._says, exc_info=error)
            return
        self._newest = now, reason
        if not self._failures:
            self._since = now
        self._failures += 1
        said_at = self._said.get(reason)
        if len(self._said) == MOST_REASONS if said_at is None else now - said_at < REPEAT_SECONDS:
            return
        self._said[reason] = now
        log.error(
            "%s: %s (%s that have failed since %.0f s ago: %d)",
            self._says,
            reason,
            self._work,
            now - self._since,
            self._failures,
        )

    def note_success(self) -> None:
        """Log that work succeeds again, if it had failed."""
        self._newest = None
        if not self._failures:
            return
        log.warning(
            "%s succeed again, after %d that failed within %.0f s",
            self._work,
            self._failures,
            self._monotonic() - self._since,
        )
        self._failures = 0
        self._said.clear()

    def _is_due(self, defect: Exception, now: float) -> bool:
        """Whether the traceback of a defect is logged; success of other work does not make it due sooner."""
        frames = list(traceback.walk_tb(defect.__traceback__))
        # Defects of different places may all end in one line of a library.
        ours = [each for each in frames if each[0].f_globals.get("__name__", "").startswith(OUR_PACKAGES)]
        place = next(((frame.f_code.co_filename, line) for frame, line in reversed(ours or frames)), ("", 0))
        self._defects = {each: at for each, at in self._defects.items() if now - at < REPEAT_SECONDS}
        if place in self._defects or len(self._defects) == MOST_REASONS:
            return False
        self._defects[place] = now
        return True
