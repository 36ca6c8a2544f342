"""Gives a training one core, with all its threads and ours, so that their processor times are of one kind.

The processors of a rented machine may be the halves of one core, now and then, and then each takes longer for whatever
it does while the other works: `slowed_by_a_neighbour` tells how much longer.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil

__all__ = ["one_core", "slowed_by_a_neighbour"]

LOOP_STEPS = 500_000
TRIES = 20
PAUSE_SECONDS = 0.2
NEIGHBOUR = "while True: pass"


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Keep the threads of this process, and those that they start, on one core meanwhile; its processes go free.

    Where the system lets nobody choose, as macOS does not, they stay where they are.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    _keep_on({min(allowed)})
    try:
        yield
    finally:
        _keep_on(allowed)


def slowed_by_a_neighbour() -> tuple[float, float]:
    """Give how many times as long a loop of Python takes while another process works: the least and the most seen."""
    alone = min(_loop_seconds() for _ in range(TRIES))
    with subprocess.Popen([sys.executable, "-c", NEIGHBOUR]) as neighbour:  # noqa: S603 - ourselves
        try:
            beside = [_loop_seconds() for _ in range(TRIES)]
        finally:
            neighbour.kill()
    return min(beside) / alone, max(beside) / alone


def _keep_on(cores: set[int]) -> None:
    for thread in psutil.Process().threads():
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.sched_setaffinity(thread.id, cores)


def _loop_seconds() -> float:
    time.sleep(PAUSE_SECONDS)  # it changes with the hour, not with the millisecond
    began = time.thread_time()
    for _ in range(LOOP_STEPS):
        pass
    return time.thread_time() - began
