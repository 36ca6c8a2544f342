"""Notices that a file has changed and that its writing has ended."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

__all__ = ["SETTLED_SECONDS", "WatchedFile"]

# A changed file counts as complete once it has stayed the same for this time.
SETTLED_SECONDS: Final = 1.0

Signature = tuple[int, int, int, int] | None


class WatchedFile:
    """Compares a file with its state at the last reading. For one thread at a time."""

    def __init__(self, path: Path, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Begin to watch a file in its current state, which counts as read.

        Args:
            path: The file, which may be missing.
            monotonic: A clock in seconds.
        """
        self._path = path
        self._monotonic = monotonic
        self._read = self._seen = self._signature()
        self._seen_at = monotonic()

    def mark_read(self) -> None:
        """Note the current state of the file, before it is read: a change during the reading is then found later."""
        self._read = self._seen = self._signature()

    def is_due(self) -> bool:
        """Return whether the file has changed or gone since its last reading, and is settled."""
        seen, now = self._signature(), self._monotonic()
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        return seen != self._read and now - self._seen_at >= SETTLED_SECONDS

    def _signature(self) -> Signature:
        """Return values that change with a file and its permissions; None if there is no file."""
        try:
            state = self._path.stat()
        except OSError:
            return None
        return state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino
