"""A daemon thread whose end can be waited for, also after a Ctrl-C in an earlier wait, and signals between threads."""

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

__all__ = ["BackgroundThread", "Signal"]


class Signal:
    """A flag that threads wait for.

    `threading.Event` takes a lock in Python, and a Ctrl-C at that moment leaves it locked: the next wait and the thread
    that sets the event then hang for ever. A `SimpleQueue` has no such moment. Nothing is polled.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._tokens: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """End the waits of other threads, and the next ones."""
        self._is_set = True
        self._tokens.put(None)

    def clear(self) -> None:
        """Let the next wait wait again; a call of `set` during this one may end it."""
        self._is_set = False
        with suppress(Empty):
            while True:
                self._tokens.get_nowait()

    def wait(self, timeout_seconds: float) -> bool:
        """Wait until the flag is set, for at most this long; return whether it is."""
        if not self._is_set:
            with suppress(Empty):
                self._tokens.get(timeout=max(0.0, timeout_seconds))
                self._tokens.put(None)  # another thread may wait, too
        return self._is_set


class BackgroundThread(threading.Thread):
    """Runs a function in a daemon thread.

    Args:
        work: The function.
        name: The name of the thread.
    """

    def __init__(self, work: Callable[[], object], *, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._has_ended = Signal()

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
