"""Lets one thread at a time test a server that does not answer, so that the other threads do not wait for it.

Otherwise each request would wait for ten seconds or more, and would leave one more connection to a server that must
process all of them when it continues.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from monitor_server.errors import Unavailable

__all__ = ["UnresponsiveServer"]

# The time between two tests. Work that is tried again at once is refused at once.
PAUSE_SECONDS: Final = 1.0


class UnresponsiveServer:
    """Whether a server does not answer; for any thread.

    Args:
        ask: Sends the server a query, and reports with `begin` or `end` whether it has answered.
        monotonic: A clock in seconds.
    """

    def __init__(self, ask: Callable[[], None], *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._asked_at: float | None = None
        self._asking = threading.Lock()

    @property
    def is_lasting(self) -> bool:
        """Whether the server does not answer, according to the last test."""
        return self._asked_at is not None

    def begin(self) -> None:
        """Note that the server has not answered for too long."""
        self._asked_at = self._monotonic()

    def end(self) -> None:
        """Note that the server has answered, even with an error."""
        self._asked_at = None

    def check(self) -> None:
        """Return at once unless the server is silent. Then test it, or refuse if another thread tests it.

        Raises:
            Unavailable: If it still does not answer.
        """
        asked_at = self._asked_at
        if asked_at is None:
            return
        if self._monotonic() - asked_at >= PAUSE_SECONDS and self._asking.acquire(blocking=False):
            try:
                self._ask()
            finally:
                self._asking.release()
        if self.is_lasting:
            raise Unavailable("the database does not answer, and the collector tries to reach it; send again later")
