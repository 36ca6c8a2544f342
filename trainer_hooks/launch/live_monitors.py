"""The monitors of this process: they share the time at its exit, and leave their work to it in a forked child."""

import os
import time
import weakref
from typing import Protocol

__all__ = ["LiveMonitor", "add_monitor", "share_exit_seconds"]

# The shortest time for which one of many monitors waits for its collector when the interpreter ends.
LEAST_SECONDS_AT_EXIT = 0.1


class LiveMonitor(Protocol):
    """What a monitor offers to the process that it is in."""

    @property
    def is_waiting(self) -> bool:
        """Whether it may still wait for its collector."""

    def detach_after_fork(self) -> None:
        """Do nothing from now on, in a forked child."""


_live: weakref.WeakSet[LiveMonitor] = weakref.WeakSet()
_exit_deadline: float | None = None


def add_monitor(monitor: LiveMonitor) -> None:
    """Add a monitor that starts; it is kept no longer than others refer to it."""
    _live.add(monitor)


def share_exit_seconds(longest: float) -> float:
    """Return how long the next monitor waits for its collector when the interpreter ends.

    All monitors of the process together wait about as long as one alone would.
    """
    global _exit_deadline  # noqa: PLW0603 - the exit is one of the process
    now = time.monotonic()
    _exit_deadline = now + longest if _exit_deadline is None else _exit_deadline
    waiting = sum(monitor.is_waiting for monitor in _live)
    return max((_exit_deadline - now) / max(waiting, 1), LEAST_SECONDS_AT_EXIT)


def _detach_inherited() -> None:
    for monitor in _live:
        monitor.detach_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_detach_inherited)
