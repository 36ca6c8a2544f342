"""A daemon thread that receives no signals, and whose end can be waited for, also after a Ctrl-C in an earlier wait."""

import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext

from trainer_hooks.launch.signal_mask import blocking_signals, read_blocked_signals, start_without_signals

__all__ = ["BackgroundThread", "signals_of_training"]


class BackgroundThread(threading.Thread):
    """Runs a function in a daemon thread.

    Args:
        work: The function.
        name: The name of the thread.

    Attributes:
        signals_of_training: The signals that the training blocked when it started this thread, or the starter of it.
    """

    def __init__(self, work: Callable[[], object], *, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._has_ended = threading.Event()
        self.signals_of_training: Collection[int] = frozenset()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread."""
        return self is threading.current_thread()

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: If the process may have no more threads.
        """
        starter = threading.current_thread()
        if isinstance(starter, BackgroundThread):  # it blocks them itself
            self.signals_of_training = starter.signals_of_training
            super().start()
        else:
            self.signals_of_training = read_blocked_signals()
            start_without_signals(super().start)

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


def signals_of_training() -> AbstractContextManager[None]:
    """Return a context for a call of the user's code: a program that it starts would not end on a blocked SIGTERM."""
    thread = threading.current_thread()
    return blocking_signals(thread.signals_of_training) if isinstance(thread, BackgroundThread) else nullcontext()
