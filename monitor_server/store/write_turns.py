"""A lock that is handed over in the order in which it was asked for.

SQLite lets one connection write at a time, and the others poll for it: a thread that writes in a loop would starve
them. Threads of one process therefore queue here first.
"""

import threading
from collections import deque
from types import TracebackType

__all__ = ["Turns"]


class Turns:
    """A fair lock, used as a context manager."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: deque[threading.Event] = deque()

    def __enter__(self) -> None:
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            turn = threading.Event()
            self._waiting.append(turn)
        turn.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_taken = False
