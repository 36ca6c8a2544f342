"""Where the sequence numbers of a monitor's records begin, so that no two monitors of a rank use the same ones.

The collector takes a record with a known number for a repetition, and does not store it again.
"""

import os
import threading
import weakref
from typing import Final

__all__ = ["take_first_number"]

# More steps than any process logs, and as µs no more than a restart takes.
NUMBERS_APART: Final = 100_000_000

# The rank of each monitor, and the first number of the newest monitor of this rank.
_newest: weakref.WeakKeyDictionary[object, tuple[object, int]] = weakref.WeakKeyDictionary()
_lock = threading.RLock()

if hasattr(os, "register_at_fork"):  # a forked child must not find it held by a thread that it does not have
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def take_first_number(monitor: object, rank: object, now: float) -> int:
    """Return the start time in µs, or a later number if another monitor of the process reports as the same rank.

    No process logs a step per µs, so the numbers of a later process are higher. Two monitors that connect one after the
    other would soon have the same numbers.

    Args:
        monitor: The monitor; once no monitor of the rank exists, a later one begins with its start time again.
        rank: What names the rank among all ranks of all runs.
        now: Seconds since the epoch.
    """
    with _lock:
        others = {other: newest for other, (known, newest) in _newest.items() if known == rank}
        first = max([int(now * 1e6), *(newest + NUMBERS_APART for newest in others.values())])
        for each in (monitor, *others):  # the others outlive the newest one, whose numbers stay in use at the collector
            _newest[each] = rank, first
    return first
