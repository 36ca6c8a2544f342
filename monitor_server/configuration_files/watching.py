"""Notices that a file has changed and is no longer being written."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

__all__ = ["SETTLED_SECONDS", "WatchedFile"]

# A file that is being written is left alone until it has been the same for so long.
SETTLED_SECONDS: Final = 1.0

Signature = tuple[int, int, int, int] | None


class WatchedFile:
    """Compares a file with what it was when it was last read. For one thread at a time."""

    def __init__(self, path: Path, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Begin to watch a file, which counts as read.

        Args:
            path: The file, which may be missing.
            monotonic: A clock in seconds.
        """
        self._path = path
        self._monotonic = monotonic
        self._read = self._seen = self._signature()
        self._seen_at = monotonic()

    def mark_read(self) -> None:
        """Note the file as it is now, before it is read: a change during the reading is then found later."""
        self._read = self._seen = self._signature()

    def mark_unread(self) -> None:
        """Have the file read once more although it has not changed."""
        self._read = None

    def is_due(self) -> bool:
        """Return whether the file is there, is not what was read, and has been the same for `SETTLED_SECONDS`."""
        seen, now = self._signature(), self._monotonic()
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        return seen not in (None, self._read) and now - self._seen_at >= SETTLED_SECONDS

    def _signature(self) -> Signature:
        """Return what changes with a file, its permissions included; None where there is none."""
        try:
            state = self._path.stat()
        except OSError:
            return None
        return state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino
