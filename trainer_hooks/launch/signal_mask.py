"""Starts threads that receive no signals, so that a signal of the process goes to the threads of the training."""

import contextlib
import signal
from collections.abc import Callable, Collection, Iterator

__all__ = ["blocking_signals", "read_blocked_signals", "start_without_signals"]

# An error of the thread itself raises these. Where they are blocked, the process ends without faulthandler's report.
FAULTS = ("SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP")
OTHERS = [int(each) for each in signal.Signals if each.name not in FAULTS]


def read_blocked_signals() -> Collection[int]:
    """Return the signals that this thread blocks; none where the platform has no masks."""
    return signal.pthread_sigmask(signal.SIG_BLOCK, ()) if _has_masks() else frozenset()


def start_without_signals(start: Callable[[], object]) -> None:
    """Start a thread that blocks every signal that has a name, but those of errors.

    A training may block a signal, such as SIGTERM while it writes a checkpoint. It stays pending while every thread
    of the process blocks it; a thread that does not would receive it at once.

    Args:
        start: Starts the thread, which inherits the mask of the caller.
    """
    if not _has_masks():
        start()
        return
    # Not the result of the call that blocks: a handler of the training may raise in it.
    before = read_blocked_signals()
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, OTHERS)
        start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def blocking_signals(signals: Collection[int]) -> Iterator[None]:
    """Block these signals alone in a thread that otherwise receives none."""
    if not _has_masks():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _has_masks() -> bool:
    return hasattr(signal, "pthread_sigmask")  # Windows has none
