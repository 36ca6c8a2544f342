"""The runs that wait to be projected: those with little to do come before those that are behind.

A run is behind where its slice has left something over, and where several batches have come while it waits. Were it in
one queue with the others, a run of one step would wait for a whole slice of each such run. So it waits in a queue of
its own, which gets a turn after some of the others.
"""

from collections import OrderedDict
from typing import Final

__all__ = ["RunQueue"]

# Turns of runs that are not behind before one that is. Most of theirs are a step, and take a fiftieth of a whole slice:
# where there are so many runs that they never end, those that are behind get about a third of the time.
TURNS_BEFORE_BEHIND: Final = 64
# A trainer that makes a step in a second sends so many only where its run has waited for as many seconds.
BATCHES_BEFORE_BEHIND: Final = 16


class RunQueue:
    """Each run once, in the order in which they came; the caller holds a lock.

    Args:
        most: How many runs it holds; others are not taken.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._fresh: OrderedDict[str, int] = OrderedDict()  # with the batches that came while it waits
        self._behind: OrderedDict[str, None] = OrderedDict()
        self._turns = 0

    def __len__(self) -> int:
        return len(self._fresh) + len(self._behind)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._fresh or run_id in self._behind

    def add(self, run_id: str) -> bool:
        """Add a run that has something to do, if it does not wait yet; return False if there are too many."""
        if run_id in self:
            return True
        if len(self) >= self._most:
            return False
        self._fresh[run_id] = 0
        return True

    def add_batch(self, run_id: str) -> bool:
        """Add a run for which a batch has come; return False if there are too many."""
        if not self.add(run_id):
            return False
        if run_id in self._fresh:
            self._fresh[run_id] += 1
            if self._fresh[run_id] > BATCHES_BEFORE_BEHIND:
                self.add_behind(run_id)
        return True

    def add_behind(self, run_id: str) -> None:
        """Add a run whose slice has left something over, if there are not too many.

        During the slice it may have been added as one that has something to do.
        """
        self._fresh.pop(run_id, None)
        if len(self) < self._most:
            self._behind[run_id] = None

    def next(self) -> str | None:
        """Remove the run whose turn it is and return it; None where none waits."""
        is_turn_of_behind = self._turns >= TURNS_BEFORE_BEHIND or not self._fresh
        queue = self._behind if self._behind and is_turn_of_behind else self._fresh
        if not queue:
            return None
        self._turns = 0 if queue is self._behind else self._turns + 1
        return queue.popitem(last=False)[0]
