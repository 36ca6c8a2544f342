"""The runs that wait to be projected. Runs with little to do come before runs that are behind.

A run is behind if its slice did not finish its entries, or if several batches have arrived while it waits. In a single
queue, a run with one new step would wait for a whole slice of each such run. So the runs that are behind have a queue
of their own, which gets a turn after a number of the other runs.
"""

from collections import OrderedDict
from typing import Final

__all__ = ["RunQueue"]

# The number of turns of other runs before a turn of a run that is behind. Most of these turns are one step and take a
# fiftieth of a whole slice. If the other runs never end, the runs that are behind get about a third of the time.
TURNS_BEFORE_BEHIND: Final = 64
# A trainer with one step a second sends this many batches only if its run has waited for as many seconds.
BATCHES_BEFORE_BEHIND: Final = 16


class RunQueue:
    """Each run once, in the order of arrival; the caller holds a lock.

    Args:
        most: The largest number of runs; further ones are not taken.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._fresh: OrderedDict[str, int] = OrderedDict()  # with the batches that arrived while the run waits
        self._behind: OrderedDict[str, None] = OrderedDict()
        self._turns = 0

    def __len__(self) -> int:
        return len(self._fresh) + len(self._behind)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._fresh or run_id in self._behind

    def add(self, run_id: str) -> bool:
        """Add a run that has something to do, unless it waits already; return False if there are too many runs."""
        if run_id in self:
            return True
        if len(self) >= self._most:
            return False
        self._fresh[run_id] = 0
        return True

    def add_batch(self, run_id: str) -> bool:
        """Add a run for which a batch has arrived; return False if there are too many runs."""
        if not self.add(run_id):
            return False
        if run_id in self._fresh:
            self._fresh[run_id] += 1
            if self._fresh[run_id] > BATCHES_BEFORE_BEHIND:
                self.add_behind(run_id)
        return True

    def add_behind(self, run_id: str) -> None:
        """Add a run whose slice did not finish its entries, unless there are too many.

        The run may have been added to the other queue during the slice.
        """
        self._fresh.pop(run_id, None)
        if len(self) < self._most:
            self._behind[run_id] = None

    def next(self) -> str | None:
        """Remove and return the next run; None if no run waits."""
        is_turn_of_behind = self._turns >= TURNS_BEFORE_BEHIND or not self._fresh
        queue = self._behind if self._behind and is_turn_of_behind else self._fresh
        if not queue:
            return None
        self._turns = 0 if queue is self._behind else self._turns + 1
        return queue.popitem(last=False)[0]
