"""Batches on disk, where they survive the process that wrote them. Sends nothing, and knows nothing of what is in them.

    <spool>/<run id>/<attempt>-<rank>-<pid>-<random>/<number>-<records>.msgpack

A file is one sealed batch, byte for byte the body of a request, put in its place by a rename: whoever kills the
process, a file is whole or is not there. It survives kill -9 without fsync, because the page cache is the kernel's; a
machine that loses power may lose the last seconds. A folder belongs to the process that holds the lock on the file
beside it, and the kernel takes the lock away when the process dies: then the next process of the run, or
`trainer_hooks.sync`, may claim it. Sending a file twice does no harm, since the collector counts a record by run,
attempt, rank and sequence number.
"""

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

__all__ = ["Folder", "OnDisk", "Spool"]

# The least that a file takes on most disks; counting it bounds the number of files as well.
BLOCK_BYTES = 4096
# Whoever sends a folder by hand may name any; only what is called just so is sent and removed.
FOLDER = re.compile(r"(\d+-){2,}[0-9a-f]{8}")
BATCH = re.compile(r"\d{10}-(\d+)\.msgpack")
# Ranks that start and end at once meet as often at the most.
TRIES = 100
UNFINISHED = re.compile(r"\d{10}-\d+\.tmp")


@dataclass(frozen=True, slots=True, eq=False)
class OnDisk:
    """A batch in a file of its own."""

    path: Path
    records: int
    nbytes: int

    def read(self) -> bytes:
        """Give the encoded batch.

        Raises:
            OSError: If somebody has taken it away.
        """
        return self.path.read_bytes()

    def remove(self) -> None:
        """Take the file away."""
        self.path.unlink(missing_ok=True)


class Folder:
    """The part of a spool that one process fills, or that another has claimed after its death.

    Args:
        path: The folder.
        lock: Descriptor of the locked file beside it.
    """

    def __init__(self, path: Path, lock: int) -> None:
        self._path = path
        # A bare descriptor: a forked child's copy of this object has no finaliser that could harm its parent.
        self._lock: int | None = lock
        self._written = 0

    @classmethod
    def create(cls, run_folder: Path, name: str) -> Self:
        """Make a folder and lock it, in the order in which nobody can claim it in between.

        Raises:
            OSError: If it cannot be.
        """
        path = run_folder / name
        lock = _new_lock(path)
        try:
            _take(lock)
            path.mkdir(mode=0o700)
        except OSError:
            os.close(lock)
            raise
        return cls(path, lock)

    @staticmethod
    def below(path: Path) -> list[Path]:
        """Give the folders at and below a place that hold batches of ours, oldest first."""
        batches = (batch for batch in path.absolute().rglob("*.msgpack") if BATCH.fullmatch(batch.name))
        return sorted({batch.parent for batch in batches if FOLDER.fullmatch(batch.parent.name)})

    @classmethod
    def claim(cls, path: Path) -> Self | None:
        """Take over a folder whose process is dead; None where it lives, or another was faster."""
        try:
            # A folder without a lock was copied here: its maker would have locked it before making it.
            lock = os.open(_lock_path(path), os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            return None
        try:
            _take(lock)
        except BlockingIOError:
            os.close(lock)
            return None
        return cls(path, lock)

    def batches(self) -> Iterator[OnDisk]:
        """Give the batches in the order in which they were written; foreign files are left alone."""
        for path in sorted(self._path.glob("*.msgpack")):
            if batch := BATCH.fullmatch(path.name):
                yield OnDisk(path, int(batch[1]), _on_disk(path.stat().st_size))

    def write(self, body: bytes, records: int) -> OnDisk:
        """Put a batch in a file.

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
        return OnDisk(path, records, _on_disk(len(body)))

    def release(self) -> None:
        """Let go of the folder, and remove it where it holds no batch any more."""
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
        self.disown()

    def disown(self) -> None:
        """Close the lock's descriptor; the lock itself stays with whoever shares it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class Spool:
    """What one process of a run has on disk: its own folder, made when it is first needed, and those it has claimed.

    Args:
        run_folder: Holds the folders of all processes of the run.
        name: Begins the own folder's name; sorts by age.
        capacity_bytes: Most bytes that may wait here.
    """

    def __init__(self, run_folder: Path, *, name: str, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._run_folder = run_folder
        self._name = name
        self._own: Folder | None = None
        self._claimed: list[Folder] = []

    def claim(self) -> list[OnDisk]:
        """Give the batches that dead processes of the run have left, oldest first.

        Raises:
            OSError: If the disk cannot be read.
        """
        batches: list[OnDisk] = []
        for path in sorted(self._run_folder.glob("*/")):
            folder = Folder.claim(path) if FOLDER.fullmatch(path.name) else None
            if folder is not None:
                self._claimed.append(folder)
                batches += folder.batches()
        if not batches:
            self.release_claims()
        return batches

    def write(self, body: bytes, records: int) -> OnDisk:
        """Put a batch in a file of the own folder.

        Raises:
            OSError: If the disk is full or gone.
            ImportError: If the platform has no file locks.
        """
        try:
            return self.own().write(body, records)
        except FileNotFoundError:  # somebody has cleaned up
            if self._own:
                self._own.disown()
                self._own = None
            return self.own().write(body, records)

    def own(self) -> Folder:
        """Give the own folder, made if it is not there yet.

        Raises:
            OSError: If the disk is full or gone, or something else is in the place.
            ImportError: If the platform has no file locks.
        """
        if self._own is None:
            # secrets reads the system's generator: the training's own generators are not touched.
            self._own = Folder.create(self._run_folder, f"{self._name}-{os.getpid()}-{secrets.token_hex(4)}")
        return self._own

    def release_claims(self) -> None:
        """Let go of what was claimed, and remove what is empty."""
        while self._claimed:
            self._claimed.pop().release()

    def close(self) -> None:
        """Let go of everything."""
        self.release_claims()
        if self._own:
            self._own.release()

    def disown(self) -> None:
        """Close the locks' descriptors in a forked child."""
        for folder in [*self._claimed, *([self._own] if self._own else [])]:
            folder.disown()


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _new_lock(path: Path, *, tries: int = TRIES) -> int:
    """Open a new lock file, in a folder that is made if need be, and that others remove when they find it empty."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(_lock_path(path), os.O_RDWR | os.O_CREAT, 0o600)
    except (FileNotFoundError, FileExistsError):
        if tries == 1:
            raise
        return _new_lock(path, tries=tries - 1)


def _take(lock: int) -> None:
    """Lock an open file against every other process and every other descriptor.

    Raises:
        BlockingIOError: If somebody has it.
        ImportError: If the platform has no such lock; batches stay in memory there.
    """
    import fcntl  # noqa: PLC0415 - POSIX only, and the SDK imports everywhere

    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _on_disk(nbytes: int) -> int:
    return -(-nbytes // BLOCK_BYTES) * BLOCK_BYTES
