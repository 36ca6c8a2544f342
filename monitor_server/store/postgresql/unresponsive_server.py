"""Keeps threads from waiting for a server that says nothing: one at a time asks it whether it answers again.

Otherwise each request would wait for ten seconds or more, and would leave one more connection to a server that has to
take all of them up when it goes on.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from monitor_server.errors import Unavailable

__all__ = ["Silence"]

# Between two questions, so that work that is tried again at once is refused at once.
PAUSE_SECONDS: Final = 1.0


class Silence:
    """Whether a server is silent; for any thread.

    Args:
        ask: Asks the server for an answer, and notes by `begin` or `end` whether there was one.
        monotonic: A clock in seconds.
    """

    def __init__(self, ask: Callable[[], None], *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._asked_at: float | None = None
        self._asking = threading.Lock()

    @property
    def is_lasting(self) -> bool:
        """Whether the server is silent, as far as anybody has asked."""
        return self._asked_at is not None

    def begin(self) -> None:
        """Note that the server has said nothing for too long."""
        self._asked_at = self._monotonic()

    def end(self) -> None:
        """Note that the server has answered, be it with an error."""
        self._asked_at = None

    def check(self) -> None:
        """Return at once unless the server is silent; then ask it, or refuse where another thread asks it.

        Raises:
            Unavailable: If it is silent still.
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
            raise Unavailable("the database does not answer, and is asked again; send again later")
