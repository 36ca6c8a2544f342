"""Lets ingest go first: while batches are written, the projector pauses between two steps.

Both run in one process, which executes Python in one thread at a time, and a batch that is not acknowledged stops its
sender. Projection can be done later. It is never stopped altogether: a pause is at most `MAX_PAUSE_FACTOR` times as
long as what was worked since the last one, which leaves it a tenth of the time under any load.
"""

from collections.abc import Callable
from time import perf_counter

__all__ = ["IngestPriority"]

MAX_PAUSE_FACTOR = 9.0
MAX_PAUSE_SECONDS = 0.1


class IngestPriority:
    """Pauses its caller while ingest is busy."""

    def __init__(self, wait_until_idle: Callable[[float], bool], *, clock: Callable[[], float] = perf_counter) -> None:
        """Build it.

        Args:
            wait_until_idle: Waits until ingest has nothing to write, no longer than some seconds.
            clock: Returns seconds.
        """
        self._wait_until_idle = wait_until_idle
        self._clock = clock
        self._since = clock()
        self._allowed = 0.0

    def give_way(self) -> None:
        """Pause while ingest is busy, as long as the work since the last call allows."""
        now = self._clock()
        self._allowed = min(self._allowed + MAX_PAUSE_FACTOR * (now - self._since), MAX_PAUSE_SECONDS)
        self._wait_until_idle(self._allowed)
        self._since = self._clock()
        self._allowed -= self._since - now
