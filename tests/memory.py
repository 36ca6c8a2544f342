"""A folder in memory for the files of tests: a commit that waits for a disk takes some hundred times as long."""

import shutil
from pathlib import Path

__all__ = ["memory_folder"]

MEMORY = Path("/dev/shm")  # noqa: S108 - the files in it lie in folders that only their owner may enter
MEMORY_BYTES = 2 << 30  # a run of all tests writes 0.3 GB, and a PostgreSQL server 0.1 GB


def memory_folder() -> Path | None:
    """Return a folder in memory, or None where there is none with enough room."""
    return MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES else None
