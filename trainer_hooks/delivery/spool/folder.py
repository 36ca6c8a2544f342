"""One folder of the spool: one process fills it with batches, and another may claim it after that process has died.

A batch is put in its place by a rename, so a file is whole or absent whenever the process is killed. It survives
kill -9 without fsync, because the page cache belongs to the kernel; a machine that loses power may lose the last
seconds. The folder belongs to the process that holds the lock on the file beside it. The kernel releases the lock when
the process dies.
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Self

from trainer_hooks.delivery.spool.locks import FOLDER, acquire, lock_path, open_new_lock, require_locks

__all__ = ["BatchOnDisk", "SpoolFolder", "list_folder"]

# The smallest space that a file takes on most disks; counting it also bounds the number of files.
BLOCK_BYTES = 4096
BATCH = re.compile(r"\d{10}-(\d+)\.msgpack")
UNFINISHED = re.compile(r"\d{10}-\d+\.tmp")


@dataclass(frozen=True, slots=True, eq=False)
class BatchOnDisk:
    """A batch in one file of the spool.

    Attributes:
        path: The file.
        records: How many records it holds.
        nbytes: The space that it takes.
        disk: The number of the disk that it was written to.
    """

    path: Path
    records: int
    nbytes: int
    disk: int

    def read(self) -> bytes:
        """Read the encoded batch.

        Raises:
            FileNotFoundError: If somebody has deleted it.
            OSError: If it cannot be read, or its disk is not mounted.
        """
        try:
            # The read of a pipe or a device, or of a link to one, might never end.
            if not stat.S_ISREG(self.path.stat().st_mode):
                raise OSError(errno.EINVAL, "a batch must be a regular file", str(self.path))
            return self.path.read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            if _find_disk(self.path) != self.disk:
                raise OSError(errno.ENODEV, "its disk is not mounted", str(self.path)) from error
            raise

    def remove(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)


class SpoolFolder:
    """A folder of the spool: one process fills it, and another may claim it after that process has died.

    Args:
        path: The folder.
        lock: Descriptor of the locked file beside the folder.
    """

    def __init__(self, path: Path, lock: int) -> None:
        self._path = path
        # A bare descriptor: a forked child's copy of this object then has no finaliser that could harm its parent.
        self._lock: int | None = lock
        self._written = 0
        self._disk = _find_disk(path)

    @property
    def is_mounted(self) -> bool:
        """Whether the disk that holds the folder is the one at its path."""
        return _find_disk(self._path) == self._disk

    @classmethod
    def create(cls, run_folder: Path, name: str) -> Self:
        """Lock and make a folder, in this order, so that nobody can claim it in between.

        Raises:
            OSError: If it cannot be made.
            ImportError: If the platform has no file locks; nothing is made then.
        """
        require_locks()
        path = run_folder / name
        lock = open_new_lock(path)
        try:
            acquire(lock)
            path.mkdir(mode=0o700)
        except OSError:
            # On a full disk each attempt would leave an empty file, because a new name needs no space.
            with contextlib.suppress(OSError):
                lock_path(path).unlink()
            os.close(lock)
            raise
        return cls(path, lock)

    @staticmethod
    def find(path: Path, on_error: Callable[[OSError], object]) -> list[Path]:
        """Return the folders at and below a path that hold batches, oldest first.

        Args:
            path: A spool, or any folder in a spool.
            on_error: Called for each folder that cannot be read, such as another user's; its name is in the error.
        """
        # Only root can read this folder of a disk of its own, and no batch is in it.
        recovered = str(path.absolute() / "lost+found")

        def call_unless_gone(error: OSError) -> None:
            # A trainer that ends removes its folder.
            if not isinstance(error, FileNotFoundError) and error.filename != recovered:
                on_error(error)

        # Unlike `Path.rglob`, this goes on where a folder is removed meanwhile.
        return sorted(
            Path(folder)
            for folder, *names in os.walk(path.absolute(), onerror=call_unless_gone)
            if FOLDER.fullmatch(Path(folder).name) and any(map(BATCH.fullmatch, chain(*names)))
        )

    @classmethod
    def claim(cls, path: Path) -> Self | None:
        """Take over a folder whose process is dead; return None where it lives or another process was faster.

        Raises:
            OSError: If the disk fails.
            ImportError: If the platform has no file locks; nothing is made then.
        """
        require_locks()
        try:
            # A folder without a lock file was copied here: a process locks its folder before it makes it.
            lock = os.open(lock_path(path), os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            return None
        try:
            acquire(lock)
        except BlockingIOError:
            os.close(lock)
            return None
        except OSError:
            os.close(lock)
            raise
        return cls(path, lock)

    def batches(self) -> Iterator[BatchOnDisk]:
        """Yield the batches in the order in which they were written; foreign files are left alone.

        Raises:
            OSError: If the folder cannot be read.
        """
        for path in list_folder(self._path):
            if batch := BATCH.fullmatch(path.name):
                yield BatchOnDisk(path, int(batch[1]), _round_up_to_blocks(path.stat().st_size), self._disk)

    def write(self, body: bytes, records: int) -> BatchOnDisk:
        """Write a batch to a file.

        Raises:
            OSError: If the disk is full or gone; nothing is left of the file then.
        """
        path = self._path / f"{self._written:010d}-{records}.msgpack"
        unfinished = path.with_suffix(".tmp")
        try:
            unfinished.write_bytes(body)
            unfinished.rename(path)
        except OSError:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise
        self._written += 1
        return BatchOnDisk(path, records, _round_up_to_blocks(len(body)), self._disk)

    def release(self) -> None:
        """Release the lock, and remove the folder if it holds no batch any more."""
        if self._lock is None:
            return
        with contextlib.suppress(OSError):
            for path in self._path.glob("*.tmp"):
                if UNFINISHED.fullmatch(path.name):
                    path.unlink()
            self._path.rmdir()
        with contextlib.suppress(OSError):
            if not self._path.exists():
                lock_path(self._path).unlink()
            self._path.parent.rmdir()  # fails where another process of the run has something there
        self.close_lock()

    def close_lock(self) -> None:
        """Close the descriptor of the lock; a process that shares the descriptor still holds the lock."""
        # A child that another thread forks meanwhile must not close the next file that gets this number.
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def list_folder(path: Path) -> list[Path]:
    """Return the paths in a folder in the order of their names; none where there is no such folder.

    Raises:
        OSError: If it cannot be read, which `Path.glob` would hide.
    """
    try:
        return sorted(path.iterdir())
    except FileNotFoundError:
        return []


def _find_disk(path: Path) -> int:
    """Return the number of the disk that holds the path, or would hold it."""
    while True:
        try:
            return path.stat().st_dev
        except (FileNotFoundError, NotADirectoryError):
            path = path.parent


def _round_up_to_blocks(nbytes: int) -> int:
    return -(-nbytes // BLOCK_BYTES) * BLOCK_BYTES
