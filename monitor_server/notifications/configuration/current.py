"""The file of channels and routes as it is in force: read at the start, and anew after it has changed."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from monitor_server.errors import StartupError
from monitor_server.notifications.configuration.tables import NotificationFile
from monitor_server.printable import printable

__all__ = ["CurrentFile"]

log = logging.getLogger(__name__)

# A file that is being written is left alone until it has been the same for so long.
SETTLED_SECONDS: Final = 1.0

Signature = tuple[int, int, int, int] | None


class CurrentFile:
    """Holds the file in force, for all threads. A file that cannot be used changes nothing, and the log says why."""

    def __init__(
        self,
        path: Path,
        read: Callable[[Path], NotificationFile],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the file for the first time.

        Args:
            path: The file.
            read: Reads and checks it, and raises `StartupError` if it cannot be used.
            monotonic: A clock in seconds.

        Raises:
            StartupError: If the file cannot be used.
        """
        self._path = path
        self._read = read
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._signature = self._seen = _signature(path)
        self._seen_at = monotonic()
        self._file = read(path)

    @property
    def file(self) -> NotificationFile:
        """The file in force."""
        return self._file

    def reload(self) -> NotificationFile:
        """Read the file now, and return it.

        Raises:
            StartupError: If it cannot be used; what was in force stays.
        """
        with self._lock:
            self._signature = self._seen = _signature(self._path)
            self._file = self._read(self._path)
            return self._file

    def refresh(self) -> bool:
        """Read the file where it has changed and is no longer being written; return whether another is in force."""
        with self._lock:
            seen, now = _signature(self._path), self._monotonic()
            if seen != self._seen:
                self._seen, self._seen_at = seen, now
            if seen in (None, self._signature) or now - self._seen_at < SETTLED_SECONDS:
                return False
        try:
            file = self.reload()
        except StartupError as error:
            log.error("the file of notifications has changed and cannot be used: %s", printable(error))  # noqa: TRY400
            return False
        log.warning(
            "the file of notifications was read anew: %d channels, %d routes", len(file.channels), len(file.routes)
        )
        return True


def _signature(path: Path) -> Signature:
    """Return what changes with a file; None where there is none."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino
