"""Waiting for an event, for processes of the tests that need none of the collector's libraries."""

import time
from typing import Any

__all__ = ["PATIENCE_SECONDS", "eventually"]

# The longest time that a test waits for an expected event, on a machine with other work.
PATIENCE_SECONDS = 60.0


def eventually(ask: Any, *, seconds: float = PATIENCE_SECONDS) -> Any:
    """Ask until the answer is true, and return it."""
    deadline = time.monotonic() + seconds
    pause = 0.005
    while not (answer := ask()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(pause)
        pause = min(1.5 * pause, 0.1)  # each question costs the collector that is waited for some of its time
    return answer
