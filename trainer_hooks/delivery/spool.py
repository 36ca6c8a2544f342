"""The spool: the part of the sending queue that is on disk and survives the process that wrote it.

    <spool>/<run id>/<attempt>-<rank>-<pid>-<random>/<number>-<records>.msgpack

A file is one encoded batch, byte for byte the body of a request. It is put in its place by a rename, so a file is whole
or absent whenever the process is killed. It survives kill -9 without fsync, because the page cache belongs to the
kernel; a machine that loses power may lose the last seconds. A folder belongs to the process that holds the lock on the
file beside it. The kernel releases the lock when the process dies, and then the next process of the run, or
`trainer_hooks.sync`, may claim the folder. Sending a file twice does no harm, because the collector identifies a record
by run, attempt, rank and sequence number. This module sends nothing and does not read the contents of a batch.
"""

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

__all__ = ["BatchOnDisk", "Spool", "SpoolFolder"]

# The smallest space that a file takes on most disks; counting it also bounds the number of files.
BLOCK_BYTES = 4096
# A user may send any folder by hand; only folders and files with exactly these names are sent and removed.
FOLDER = re.compile(r"(\d+-){2,}[0-9a-f]{8}")
BATCH = re.compile(r"\d{10}-(\d+)\.msgpack")
UNFINISHED = re.compile(r"\d{10}-\d+\.tmp")
# Other ranks may remove the empty run folder between two steps of this one; more often than this is not plausible.
LOCK_ATTEMPTS = 100
# Folders that are claimed at the same time. Each needs a descriptor, of which the training may have 1,024, and a launch
# of many ranks leaves as many folders.
MOST_CLAIMED = 32


@dataclass(frozen=True, slots=True, eq=False)
class BatchOnDisk:
    """A batch in a file of its own."""

    path: Path
    records: int
    nbytes: int

    def read(self) -> bytes:
        """Read the encoded batch.

        Raises:
            OSError: If somebody has deleted it.
        """
        return self.path.read_bytes()

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

    @classmethod
    def create(cls, run_folder: Path, name: str) -> Self:
        """Lock and make a folder, in this order, so that nobody can claim it in between.

        Raises:
            OSError: If it cannot be made.
            ImportError: If the platform has no file locks; nothing is made then.
        """
        _require_locks()
        path = run_folder / name
        lock = _open_new_lock(path)
        try:
            _acquire(lock)
            path.mkdir(mode=0o700)
        except OSError:
            # On a full disk each attempt would leave an empty file, because a new name needs no space.
            with contextlib.suppress(OSError):
                _lock_path(path).unlink()
            os.close(lock)
            raise
        return cls(path, lock)

    @staticmethod
    def find(path: Path) -> list[Path]:
        """Return the folders at and below a path that hold batches, oldest first."""
        batches = (batch for batch in path.absolute().rglob("*.msgpack") if BATCH.fullmatch(batch.name))
        return sorted({batch.parent for batch in batches if FOLDER.fullmatch(batch.parent.name)})

    @classmethod
    def claim(cls, path: Path) -> Self | None:
        """Take over a folder whose process is dead; return None where it lives or another process was faster.

        Raises:
            OSError: If the disk fails.
            ImportError: If the platform has no file locks; nothing is made then.
        """
        _require_locks()
        try:
            # A folder without a lock file was copied here: a process locks its folder before it makes it.
            lock = os.open(_lock_path(path), os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            return None
        try:
            _acquire(lock)
        except BlockingIOError:
            os.close(lock)
            return None
        except OSError:
            os.close(lock)
            raise
        return cls(path, lock)

    def batches(self) -> Iterator[BatchOnDisk]:
        """Yield the batches in the order in which they were written; foreign files are left alone."""
        for path in sorted(self._path.glob("*.msgpack")):
            if batch := BATCH.fullmatch(path.name):
                yield BatchOnDisk(path, int(batch[1]), _round_up_to_blocks(path.stat().st_size))

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
        return BatchOnDisk(path, records, _round_up_to_blocks(len(body)))

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
                _lock_path(self._path).unlink()
            self._path.parent.rmdir()  # fails where another process of the run has something there
        self.close_lock()

    def close_lock(self) -> None:
        """Close the descriptor of the lock; a process that shares the descriptor still holds the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class Spool:
    """What one process of a run has on disk: its own folder, made when first needed, and the folders it has claimed.

    Args:
        run_folder: Holds the folders of all processes of the run.
        name: Start of the own folder's name; folders sort by age.
        capacity_bytes: Most bytes that may wait here.

    Attributes:
        has_more: Whether the last claim left folders for the next one.
    """

    def __init__(self, run_folder: Path, *, name: str, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._run_folder = run_folder
        self._name = name
        self._own: SpoolFolder | None = None
        self._claimed: list[SpoolFolder] = []
        self._looked_at = ""
        self.has_more = False

    def claim(self, on_error: Callable[[OSError], object]) -> list[BatchOnDisk]:
        """Claim some folders of dead processes of the run, and return their batches, oldest first.

        The next call, after `release_claims`, goes on with the folders after these.

        Args:
            on_error: Called for each folder that cannot be claimed or read, such as another user's; it is left alone.

        Raises:
            OSError: If the folder of the run cannot be read.
            ImportError: If the platform has no file locks.
        """
        batches: list[BatchOnDisk] = []
        self.has_more = False
        for path in sorted(self._run_folder.glob("*/")):
            if path.name <= self._looked_at:
                continue
            if len(self._claimed) == MOST_CLAIMED:
                if batches:
                    self.has_more = True
                    break
                self.release_claims()
            self._looked_at = path.name
            try:
                folder = SpoolFolder.claim(path) if FOLDER.fullmatch(path.name) else None
                if folder is not None:
                    self._claimed.append(folder)
                    batches += list(folder.batches())
            except OSError as error:
                on_error(error)
        if not batches:
            self.release_claims()
        return batches

    def write(self, body: bytes, records: int) -> BatchOnDisk:
        """Write a batch to a file of the own folder.

        Raises:
            OSError: If the disk is full or gone.
            ImportError: If the platform has no file locks.
        """
        try:
            return self.open_own_folder().write(body, records)
        except FileNotFoundError:  # somebody has removed the folder
            if self._own:
                self._own.close_lock()
                self._own = None
            return self.open_own_folder().write(body, records)

    def open_own_folder(self) -> SpoolFolder:
        """Return the own folder, and make it where it does not exist yet.

        Raises:
            OSError: If the disk is full or gone, or a file of that name is in the way.
            ImportError: If the platform has no file locks.
        """
        if self._own is None:
            # secrets reads the system's generator: the training's own generators are not touched.
            self._own = SpoolFolder.create(self._run_folder, f"{self._name}-{os.getpid()}-{secrets.token_hex(4)}")
        return self._own

    def release_claims(self) -> None:
        """Release the claimed folders, and remove those that are empty."""
        while self._claimed:
            self._claimed.pop().release()

    def close(self) -> None:
        """Release all folders."""
        self.release_claims()
        if self._own:
            self._own.release()

    def detach_after_fork(self) -> None:
        """Close the descriptors of the locks in a forked child."""
        for folder in [*self._claimed, *([self._own] if self._own else [])]:
            folder.close_lock()


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _open_new_lock(path: Path, *, attempts: int = LOCK_ATTEMPTS) -> int:
    """Open a new lock file. Its folder is made if necessary; other processes remove that folder when it is empty."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(_lock_path(path), os.O_RDWR | os.O_CREAT, 0o600)
    except (FileNotFoundError, FileExistsError):
        if attempts == 1:
            raise
        return _open_new_lock(path, attempts=attempts - 1)


def _require_locks() -> None:
    """Raise an ImportError, before any file is made, where the platform has no file locks; batches stay in memory."""
    import fcntl  # noqa: F401, PLC0415 - POSIX only, and the SDK imports everywhere


def _acquire(lock: int) -> None:
    """Lock an open file against every other process and every other descriptor.

    Raises:
        BlockingIOError: If another descriptor holds the lock.
    """
    import fcntl  # noqa: PLC0415 - as in `_require_locks`

    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _round_up_to_blocks(nbytes: int) -> int:
    return -(-nbytes // BLOCK_BYTES) * BLOCK_BYTES
