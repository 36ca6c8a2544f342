"""The file of channels and routes that is in force: read at the start, and again after each change."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from monitor_server.configuration_files.watching import WatchedFile
from monitor_server.errors import StartupError
from monitor_server.notifications.configuration.tables import Channel, NotificationFile
from monitor_server.store.repositories import Repositories
from monitor_server.text_safety.printable import printable

__all__ = ["CurrentFile"]

log = logging.getLogger(__name__)


class CurrentFile:
    """Holds the file in force, for all threads. A file that cannot be used changes nothing.

    Attributes:
        problem: Why the newest file is not in force, which would also end the next start; empty if it is.
    """

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
        self._lock = threading.Lock()
        self._watched = WatchedFile(path, monotonic=monotonic)
        self._file = read(path)
        self.problem = ""

    is_newest: Final = True
    networks: Final = None
    """The networks that its channels may connect to: all, because the author of the file has access to the machine."""

    @property
    def file(self) -> NotificationFile:
        """The file in force."""
        return self._file

    def of(self, _: Repositories) -> NotificationFile:
        """Return the file in force, which does not depend on a transaction."""
        return self._file

    def former(self, _: Repositories) -> Mapping[str, Channel]:
        """Return no channel: the author of a file informs its readers without rlvitals."""
        return {}

    def reload(self) -> NotificationFile:
        """Read the file now, and return it.

        Raises:
            StartupError: If it cannot be used; the previous file stays in force.
        """
        with self._lock:
            self._watched.mark_read()
            try:
                self._file = self._read(self._path)
            except StartupError as error:
                self.problem = printable(error, longest=500)
                raise
            self.problem = ""
            return self._file

    def refresh(self) -> bool:
        """Read the file if it has changed and its writing has ended; return whether another file is now in force."""
        with self._lock:
            if not self._watched.is_due():
                return False
        try:
            file = self.reload()
        except StartupError:
            log.error("the file of notifications has changed and cannot be used: %s", self.problem)  # noqa: TRY400
            return False
        log.info(
            "the file of notifications was read again: %d channels, %d routes", len(file.channels), len(file.routes)
        )
        return True
