"""A lock that is granted in the order of the requests, with a limited wait.

SQLite lets one connection write at a time, and the others poll for the lock: a thread that writes in a loop would
starve them. Threads of one process therefore queue here first. If the disk does not answer, the writing thread waits
for the operating system, and this wait cannot be ended; the other threads are refused.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType

__all__ = ["FairLock", "TurnOverdueError"]


class TurnOverdueError(Exception):
    """A turn has not come in time."""


class FairLock:
    """A fair lock, used as a context manager.

    Args:
        limit_seconds: The longest wait for a turn. If a turn lasts longer than this, new requests are refused at once.
        monotonic: A clock in seconds.
    """

    def __init__(self, *, limit_seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._limit_seconds = limit_seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._taken_at: float | None = None
        self._waiting: deque[threading.Event] = deque()

    @property
    def waiting(self) -> int:
        """The number of threads that wait for a turn."""
        return len(self._waiting)

    def __enter__(self) -> None:
        with self._lock:
            if self._taken_at is None:
                self._taken_at = self._monotonic()
                return
            self._check(self._taken_at)
            turn = threading.Event()
            self._waiting.append(turn)
        if turn.wait(self._limit_seconds):
            return
        with self._lock:
            if turn.is_set():  # the turn came after the wait had ended
                return
            self._waiting.remove(turn)
        raise TurnOverdueError(f"other writes have not ended within {self._limit_seconds:g} s, as on a slow disk")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            self._taken_at = self._monotonic() if self._waiting else None
            if self._waiting:
                self._waiting.popleft().set()

    def _check(self, taken_at: float) -> None:
        seconds = self._monotonic() - taken_at
        if seconds > self._limit_seconds:
            raise TurnOverdueError(f"a write has not ended for {seconds:.0f} s; the disk is slow or does not answer")
