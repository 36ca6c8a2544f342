"""Lets ingest go first: while batches are written, the projector pauses between two steps.

Both run in one process, which executes Python in one thread at a time, and a batch that is not acknowledged stops its
sender. Projection can be done later. If the other threads use the share u of one core while the projector pauses, the
projector works for the share (1 - u)² of the time, and always for at least a tenth. The share 1 - u would be too much:
a batch passes through several threads, and may have to wait for the projector at each of them. A batch that waits for
the disk, or for a lock of the database, uses no processor time, and a pause would not help it.
"""

import time
from collections.abc import Callable

__all__ = ["IngestPriority"]

MAX_PAUSE_FACTOR = 9.0
# Short pauses are always needed, because the use of the core is measured in them.
MIN_PAUSE_FACTOR = 0.1
MAX_PAUSE_SECONDS = 0.1
# Each pause multiplies the weight of the earlier ones by this.
DECAY = 0.8


class IngestPriority:
    """Pauses its caller while ingest is busy.

    Args:
        wait_until_idle: Waits until ingest has nothing to write, at most for the given seconds.
        clock: Returns seconds.
        processor_clock: Returns seconds of processor time of this process.
    """

    def __init__(
        self,
        wait_until_idle: Callable[[float], bool],
        *,
        clock: Callable[[], float] = time.perf_counter,
        processor_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._wait_until_idle = wait_until_idle
        self._clock = clock
        self._processor_clock = processor_clock
        self._since = clock()
        self._allowed = 0.0
        self._paused = self._used = 0.0

    def give_way(self) -> None:
        """Pause while ingest is busy, at most in proportion to the work since the last call."""
        now, processor = self._clock(), self._processor_clock()
        self._allowed = min(self._allowed + self._pause_factor() * (now - self._since), MAX_PAUSE_SECONDS)
        self._wait_until_idle(self._allowed)
        self._since = self._clock()
        paused = self._since - now
        self._allowed -= paused
        self._paused = DECAY * self._paused + paused
        self._used = DECAY * self._used + self._processor_clock() - processor

    def _pause_factor(self) -> float:
        """Return the seconds of pause for each second of work."""
        left = self._paused - self._used
        if left <= 0.0:
            return MAX_PAUSE_FACTOR
        return min(max((self._paused / left) ** 2 - 1.0, MIN_PAUSE_FACTOR), MAX_PAUSE_FACTOR)
