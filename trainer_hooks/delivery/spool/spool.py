"""The folders that one process of a run has in the spool: its own folder, and those of dead processes."""

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from trainer_hooks.delivery.spool.folder import BatchOnDisk, SpoolFolder, list_folder
from trainer_hooks.delivery.spool.locks import FOLDER, close_locks
from trainer_hooks.errors import ConfigurationError
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.wire import run_id

__all__ = ["Spool", "make_spool"]

# The largest number of folders that are claimed at the same time. A launch of many ranks leaves as many folders, and
# each claim needs a file descriptor; a training process often has a limit of 1,024.
MOST_CLAIMED = 32


class Spool:
    """The spool of one process: its own folder, which is made when it is first needed, and the folders it has claimed.

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
        # One entry for each thread that opens or closes a lock: not all open descriptors are noted meanwhile.
        self._changing: list[None] = []
        self.has_more = False

    def claim(self, on_error: Callable[[OSError], object]) -> list[BatchOnDisk]:
        """Claim some folders of dead processes of the run, and return their batches, oldest first.

        Batches of several folders take at most ``capacity_bytes`` together; those of one folder may take more.

        The next call, after `release_claims`, goes on with the folders after these.

        Args:
            on_error: Called for each folder that cannot be claimed or read, such as another user's; it is left alone.

        Raises:
            OSError: If the folder of the run cannot be read.
            ImportError: If the platform has no file locks.
        """
        batches: list[BatchOnDisk] = []
        nbytes = 0
        self.has_more = False
        for path in list_folder(self._run_folder):
            if path.name <= self._looked_at or not path.is_dir():
                continue
            if len(self._claimed) == MOST_CLAIMED:
                if batches:
                    self.has_more = True
                    break
                self.release_claims()
            looked_before, self._looked_at = self._looked_at, path.name
            try:
                found = self._claim_folder(path)
            except OSError as error:
                on_error(error)
                continue
            nbytes += sum(batch.nbytes for batch in found)
            if batches and found and nbytes > self.capacity_bytes:
                # Each process had room of its own. What this one has no room for yet must not be dropped.
                with self._changing_locks():
                    self._claimed.pop().release()
                self._looked_at, self.has_more = looked_before, True
                break
            batches += found
        if not batches:
            self.release_claims()
        return batches

    def _claim_folder(self, path: Path) -> list[BatchOnDisk]:
        """Claim a folder and return its batches; none where it is no folder of the spool, or its process lives."""
        with self._changing_locks():
            folder = SpoolFolder.claim(path) if FOLDER.fullmatch(path.name) else None
            if folder is None:
                return []
            self._claimed.append(folder)
        return list(folder.batches())

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
                if not self._own.is_mounted:  # a folder that was made now would be hidden when the disk is back
                    raise
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
            name = f"{self._name}-{os.getpid()}-{secrets.token_hex(4)}"
            with self._changing_locks():
                self._own = SpoolFolder.create(self._run_folder, name)
        return self._own

    def release_claims(self) -> None:
        """Release the claimed folders, and remove those that are empty."""
        with self._changing_locks(), contextlib.suppress(IndexError):  # another thread may have released the last one
            while True:
                self._claimed.pop().release()

    def close(self) -> None:
        """Release all folders."""
        self.release_claims()
        if self._own:
            with self._changing_locks():
                self._own.release()

    def detach_after_fork(self) -> None:
        """Close the descriptors of the locks in a forked child."""
        for folder in [*self._claimed, *([self._own] if self._own else [])]:
            with contextlib.suppress(OSError):  # it was closed with the locks of another monitor of the run
                folder.close_lock()
        if self._changing:
            close_locks(self._run_folder.name)

    @contextlib.contextmanager
    def _changing_locks(self) -> Iterator[None]:
        self._changing.append(None)
        try:
            yield
        finally:
            self._changing.pop()


def make_spool(settings: ConnectionSettings, *, is_only_place: bool) -> Spool | None:
    """Return the spool of this rank; None where the settings name no folder for it.

    Args:
        settings: The folder and its size, and the run, attempt and rank of this process.
        is_only_place: Whether the records have no other place; the rank's own folder is then made at once.

    Raises:
        ConfigurationError: If that folder cannot be made.
    """
    if settings.spool_dir is None:
        return None
    spool = Spool(
        settings.spool_dir / run_id(settings.project, settings.run),
        # 15 digits are enough for 30,000 years of milliseconds.
        name=f"{settings.attempt:015d}-{settings.rank:05d}",
        capacity_bytes=settings.spool_bytes,
    )
    if is_only_place:
        try:
            spool.open_own_folder()
        except (OSError, ImportError) as error:
            raise ConfigurationError(
                f"RLVITALS_SPOOL_DIR must be a writable folder where there is no RLVITALS_URL, got "
                f"{str(settings.spool_dir)!r}: {error}"
            ) from error
    return spool
