"""The locks by which a process holds its folder of the spool: a lock file beside each folder.

The kernel releases a lock when the process dies, so a folder whose lock is free may be claimed.
"""

import os
import re
from pathlib import Path

__all__ = ["FOLDER", "acquire", "close_locks", "lock_path", "open_new_lock", "require_locks"]

# A user may name any folder to `trainer_hooks.sync`; only folders and files with exactly these names are sent and
# removed.
FOLDER = re.compile(r"(\d+-){2,}[0-9a-f]{8}")
LOCK = re.compile(rf"{FOLDER.pattern}\.lock")
# Another rank may remove the empty run folder between two steps of this rank, which then tries again. More attempts
# than this are not plausible.
LOCK_ATTEMPTS = 100


def lock_path(path: Path) -> Path:
    """Return the path of the lock file of a folder."""
    return path.with_name(f"{path.name}.lock")


def open_new_lock(path: Path, *, attempts: int = LOCK_ATTEMPTS) -> int:
    """Open the lock file of a new folder. The folder of the run is made if necessary; others remove it when empty."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(lock_path(path), os.O_RDWR | os.O_CREAT, 0o600)
    except (FileNotFoundError, FileExistsError):
        if attempts == 1:
            raise
        return open_new_lock(path, attempts=attempts - 1)


def require_locks() -> None:
    """Raise an ImportError, before any file is made, where the platform has no file locks; batches stay in memory."""
    import fcntl  # noqa: F401, PLC0415 - POSIX only, and the SDK imports everywhere


def acquire(lock: int) -> None:
    """Lock an open file against every other process and every other descriptor.

    Raises:
        BlockingIOError: If another descriptor holds the lock.
    """
    import fcntl  # noqa: PLC0415 - as in `require_locks`

    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def close_locks(run_folder: str) -> None:
    """Close all descriptors of locks in a run's folder, also those that no object holds, in a forked child.

    A thread of the parent may have been opening or closing a lock when another thread forked. The names of files
    are in /proc on Linux; reading them there does not wait for a disk. On other systems nothing is closed.

    Args:
        run_folder: Name of the folder.
    """
    try:
        descriptors = os.listdir("/proc/self/fd")  # noqa: PTH208 - there may be thousands, and paths are slow
    except OSError:
        return
    for descriptor in descriptors:
        try:
            file = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - likewise
            if file.endswith(".lock") and LOCK.fullmatch(Path(file).name) and Path(file).parent.name == run_folder:
                os.close(int(descriptor))
        except OSError:  # as for the descriptor of the list itself, which is closed
            continue
