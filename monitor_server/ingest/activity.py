"""Counts the batches that are being stored now, for work that can wait until there are none."""

import threading
from types import TracebackType

__all__ = ["Activity"]


class Activity:
    """Counts the batches between their arrival and their commit; used as a context manager, in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._is_idle = threading.Event()
        self._is_idle.set()

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._is_idle.clear()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                self._is_idle.set()

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait until no batch is being stored, at most for some seconds; return whether that is the case."""
        return self._is_idle.wait(seconds)
