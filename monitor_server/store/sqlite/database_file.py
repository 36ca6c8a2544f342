"""Checks the files of an open SQLite database: commits to a file that was removed or replaced would be lost."""

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from monitor_server.errors import Unavailable

__all__ = ["DatabaseFile", "free_bytes"]

# SQLite's smallest page: a database with a table is never smaller.
SMALLEST_BYTES = 512

# The errors of a file system or an operating system without unnamed files.
NO_UNNAMED_FILES: Final = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT)

Identity = tuple[int, int]


class DatabaseFile:
    """A database and its write-ahead log, with the state in which they were opened.

    Args:
        path: The file of the database.
        used_log_bytes: Returns the bytes of the log that SQLite uses, or raises its error.
    """

    def __init__(self, path: Path, *, used_log_bytes: Callable[[], int]) -> None:
        self._path = path
        self._used_log_bytes = used_log_bytes
        self._log = path.with_name(path.name + "-wal")
        self._identity, _ = _stat(path)
        self._log_identity: Identity | None = None
        self._log_bytes = 0

    def free_bytes(self) -> int:
        """Return the free bytes on the disk of the database."""
        return free_bytes(self._path)

    def log_bytes(self) -> int:
        """Return the size of the write-ahead log."""
        return _stat(self._log)[1]

    def write_error(self) -> OSError | None:
        """Return the operating system's error when a file is written beside the database; None if there is none.

        SQLite reports every such error as a disk I/O error.
        """
        try:
            descriptor = os.open(self._path.parent, os.O_TMPFILE | os.O_WRONLY)
            try:
                os.write(descriptor, bytes(SMALLEST_BYTES))
            finally:
                os.close(descriptor)
        except AttributeError:  # the system has no such flag
            return None
        except OSError as error:
            return None if error.errno in NO_UNNAMED_FILES else error
        return None

    def check_presence(self) -> None:
        """Refuse to open a file other than the one that was opened first; for any thread at any time.

        Raises:
            Unavailable: If the database file was removed or replaced.
        """
        self._require_file()

    def check(self) -> None:
        """Refuse to commit to files that the next start would not find, or not find complete.

        SQLite never removes the log of an open database, and this or another collector shortens it only while SQLite
        uses nothing of it. This is called in a transaction that writes, so that none does so meanwhile.

        Raises:
            Unavailable: If one of the files was removed, replaced or cut.
        """
        # Only stat is used: closing any descriptor of these files would drop the locks that SQLite holds in this
        # process.
        if self._require_file() < SMALLEST_BYTES:
            raise _unavailable(f"the database file {self._path} was cut")
        log_identity, log_bytes = _stat(self._log)
        if self._log_identity is not None and (
            log_identity != self._log_identity or (log_bytes < self._log_bytes and self._is_cut(log_bytes))
        ):
            raise _unavailable(f"the write-ahead log {self._log} was removed, replaced or cut")
        self._log_identity, self._log_bytes = log_identity, log_bytes

    def _is_cut(self, log_bytes: int) -> bool:
        try:
            return log_bytes < self._used_log_bytes()
        except sqlite3.Error:
            return True

    def _require_file(self) -> int:
        """Return the size of the database file, if it is the one that was opened first."""
        identity, size = _stat(self._path)
        if identity is None or identity != self._identity:
            raise _unavailable(f"the database file {self._path} was removed or replaced")
        return size


def _unavailable(what: str) -> Unavailable:
    return Unavailable(
        f"{what} while the collector runs; nothing is stored until it is back or the collector is restarted"
    )


def _stat(path: Path) -> tuple[Identity | None, int]:
    try:
        found = path.stat()
    except OSError:
        return None, 0
    return (found.st_dev, found.st_ino), found.st_size


def free_bytes(file: Path) -> int:
    """Return the free bytes on the disk of a file."""
    return shutil.disk_usage(file.parent).free
