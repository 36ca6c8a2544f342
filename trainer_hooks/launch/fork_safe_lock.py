"""A lock that a forked child can use, whichever thread held it when the child was forked."""

import os
import threading
from contextlib import AbstractContextManager

__all__ = ["make_fork_safe_lock"]


def make_fork_safe_lock() -> AbstractContextManager[bool]:
    """Return a lock that is taken by the thread that forks: a child lacks every other thread that could release it."""
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
