"""A daemon thread whose end can be waited for, also after a Ctrl-C in an earlier wait."""

import threading
from collections.abc import Callable

__all__ = ["BackgroundThread"]


class BackgroundThread(threading.Thread):
    """Runs a function in a daemon thread.

    Args:
        work: The function.
        name: The name of the thread.
    """

    def __init__(self, work: Callable[[], object], *, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._has_ended = threading.Event()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread."""
        return self is threading.current_thread()

    def run(self) -> None:
        """Call the function."""
        try:
            self._work()
        finally:
            self._has_ended.set()

    def wait_for_end(self, timeout_seconds: float) -> None:
        """Wait until the function has ended, for at most this long; do nothing where the thread was never started."""
        if self.ident is not None:
            # Not `join`: after a Ctrl-C in it, Python before 3.13 takes the thread for ended.
            self._has_ended.wait(timeout_seconds)
