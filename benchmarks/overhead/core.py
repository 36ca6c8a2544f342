"""Restricts a training and all its threads to one core, so that their processor times can be compared.

Two processors of a rented machine may be halves of one core at times; then each is slower while the other works.
`slowed_by_a_neighbour` measures how much slower.
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
    """Keep the threads of this process, and those that they start, on one core; child processes are not restricted.

    Does nothing where the system has no such setting, as macOS.
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
    """Measure how many times as long a loop of Python takes while another process works: minimum and maximum."""
    alone = min(_loop_seconds() for _ in range(TRIES))
    with subprocess.Popen([sys.executable, "-c", NEIGHBOUR]) as neighbour:  # noqa: S603 - this interpreter
        try:
            beside = [_loop_seconds() for _ in range(TRIES)]
        finally:
            neighbour.kill()
    return min(beside) / alone, max(beside) / alone


def _keep_on(cores: set[int]) -> None:
    for thread in psutil.Process().threads():
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(thread.id, cores)


def _loop_seconds() -> float:
    time.sleep(PAUSE_SECONDS)  # neighbours change within hours, not milliseconds
    began = time.thread_time()
    for _ in range(LOOP_STEPS):
        pass
    return time.thread_time() - began
