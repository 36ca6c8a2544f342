"""Where the sequence numbers of a monitor's records begin, so that no two monitors of a rank use the same ones.

The collector takes a record with a known number for a repetition, and does not store it again.
"""

import os
import time
import weakref
from typing import Final

from trainer_hooks.launch.fork_safe_lock import make_fork_safe_lock

__all__ = ["take_first_number"]

# More steps than any process logs, and as µs no more than a restart takes.
NUMBERS_APART: Final = 100_000_000

# The rank of each monitor, and of the newest monitor of this rank the first number, and when it took that by the
# monotonic clock, in µs.
_newest: weakref.WeakKeyDictionary[object, tuple[object, int, int]] = weakref.WeakKeyDictionary()
# The same of the monitors of the processes that this one was forked from, by rank.
_inherited: dict[object, tuple[int, int]] = {}
_lock = make_fork_safe_lock()


def _inherit() -> None:
    _inherited.update({rank: (first, taken) for rank, first, taken in _newest.values()})
    _newest.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_inherit)


def take_first_number(monitor: object, rank: object, now: float) -> int:
    """Return the start time in µs, or a later number if another monitor of the process reports as the same rank.

    No process logs a step per µs, so the numbers of a later process are higher. Two monitors that connect one after the
    other would soon have the same numbers. So would a process and those that are forked from it.

    Args:
        monitor: The monitor; once no monitor of the rank exists, a later one begins with its start time again.
        rank: What names the rank among all ranks of all runs.
        now: Seconds since the epoch.
    """
    with _lock:
        ticks = time.monotonic_ns() // 1000
        others = {other: newest for other, (known, newest, _) in _newest.items() if known == rank}
        taken = [newest + NUMBERS_APART for newest in others.values()]
        if rank in _inherited:
            newest, since = _inherited[rank]
            # Other children of the process that had this monitor begin at another time.
            taken.append(newest + NUMBERS_APART + ticks - since)
        first = max([int(now * 1e6), *taken])
        for each in (monitor, *others):  # the others outlive the newest one, whose numbers stay in use at the collector
            _newest[each] = rank, first, ticks
    return first
