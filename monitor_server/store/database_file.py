"""Watches the files of a SQLite database: an open one outlives its name, and what is committed to it is then lost."""

from pathlib import Path

from monitor_server.errors import Unavailable

__all__ = ["DatabaseFile"]

HEADER = b"SQLite format 3\x00"

Identity = tuple[int, int]


class DatabaseFile:
    """A database and its write-ahead log, as they were when they were opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = path.with_name(path.name + "-wal")
        self._identity, _ = _stat(path)
        self._log_identity: Identity | None = None
        self._log_bytes = 0

    def check(self) -> None:
        """Refuse to commit to files that the next start would not find, or not find whole.

        The log of a database that is open is never removed or cut by SQLite, only written again from its beginning.

        Raises:
            Unavailable: If one of the files was removed, replaced, cut or overwritten.
        """
        identity, _ = _stat(self._path)
        log_identity, log_bytes = _stat(self._log)
        if identity is None or identity != self._identity:
            what = f"the database file {self._path} was removed or replaced"
        elif not _has_header(self._path):
            what = f"the database file {self._path} was cut or overwritten"
        elif self._log_identity is not None and (log_identity != self._log_identity or log_bytes < self._log_bytes):
            what = f"the write-ahead log {self._log} was removed, replaced or cut"
        else:
            self._log_identity, self._log_bytes = log_identity, log_bytes
            return
        raise Unavailable(
            f"{what} while the collector runs; nothing is stored until it is back or the collector is restarted"
        )


def _stat(path: Path) -> tuple[Identity | None, int]:
    try:
        found = path.stat()
    except OSError:
        return None, 0
    return (found.st_dev, found.st_ino), found.st_size


def _has_header(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(HEADER)) == HEADER
    except OSError:
        return False
