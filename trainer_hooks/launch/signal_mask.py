"""Starts threads that receive no signals, so that a signal of the process goes to the threads of the training."""

import signal
from collections.abc import Callable

__all__ = ["start_without_signals"]

# An error of the thread itself raises these. Where they are blocked, the process ends without faulthandler's report.
FAULTS = {"SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP"}


def start_without_signals(start: Callable[[], object]) -> None:
    """Start a thread that blocks every signal, but those of errors.

    A training may block a signal, such as SIGTERM while it writes a checkpoint. It stays pending while every thread
    of the process blocks it; a thread that does not would receive it at once.

    Args:
        start: Starts the thread, which inherits the mask of the caller.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows has no masks
        start()
        return
    others = {each for each in signal.valid_signals() if getattr(each, "name", "") not in FAULTS}
    # Not the result of the call that blocks: a handler of the training may raise in it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, others)
        start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
