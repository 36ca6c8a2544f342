"""A disk with too little room, for this process alone."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["disk_of"]


@contextmanager
def disk_of(most_bytes: int) -> Iterator[None]:
    """Let every write of a larger file fail as on a full disk."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
