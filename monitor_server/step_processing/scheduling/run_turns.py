"""The next turn: any thread adds runs that have something to do, and the projector's thread takes one after another."""

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from monitor_server.step_processing.scheduling.run_queue import RunQueue
from monitor_server.store.repositories.projection_queue import RunBehind

__all__ = ["RunTurns"]


class RunTurns:
    """The queue of runs, as several threads use it.

    Args:
        most: The largest number of runs that wait; further ones are found in the store at the next ticks.

    Attributes:
        most: As given.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._changed = threading.Condition()
        self._queue = RunQueue(most)
        self._queued_to = 0  # the number of the last run behind that a tick has queued; 0 once all are queued
        self._is_turn_of_behind = False  # whether the next tick queues them before the other runs with work
        self._is_late = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._queue)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._queue

    @property
    def queued_to(self) -> int:
        """The number of the run after which the next tick looks for runs behind."""
        return self._queued_to

    @property
    def is_late(self) -> bool:
        """Whether a verdict did not arrive in time since there was nothing left to do."""
        return self._is_late

    def report_late(self) -> None:
        """Note that a verdict did not arrive in time."""
        self._is_late = True

    def has_others(self, run_id: str) -> bool:
        """Whether other runs than this one wait."""
        with self._changed:
            return len(self._queue) > (run_id in self._queue)

    def add(self, run_ids: Iterable[str]) -> int:
        """Add runs that have something to do until there are too many; return the number of those that wait now."""
        return self._add(run_ids, self._queue.add)

    def add_batches(self, run_ids: Iterable[str]) -> None:
        """Add runs for which batches were stored."""
        self._add(run_ids, self._queue.add_batch)

    def _add(self, run_ids: Iterable[str], add: Callable[[str], bool]) -> int:
        with self._changed:
            added = sum(1 for _ in takewhile(add, run_ids))
            self._changed.notify()
        return added

    def add_unfinished(self, run_id: str) -> None:
        """Add a run whose slice did not finish its entries.

        If runs behind wait for a place in the queue, it is not added: a later tick finds it again, in its turn.
        """
        if not self._queued_to:
            with self._changed:
                self._queue.add_behind(run_id)

    def add_found(self, run_ids: Iterable[str], behind: Sequence[RunBehind]) -> None:
        """Add what a tick has found in the store: runs that have work, and runs behind, first at every second tick."""
        self._is_turn_of_behind = not self._is_turn_of_behind
        if self._is_turn_of_behind:
            self._add_behind(behind)
            self.add(run_ids)
        else:
            self.add(run_ids)
            self._add_behind(behind)

    def _add_behind(self, behind: Sequence[RunBehind]) -> None:
        """Add runs behind, and note where the next tick continues if they are too many."""
        added = self.add([each.run_id for each in behind])
        if added == len(behind) < self.most:
            self._queued_to = 0
        elif added:
            self._queued_to = behind[added - 1].number

    def next(self, *, timeout: float) -> str | None:
        """Take the next run; wait for one at most for some seconds, and return None if there is none."""
        with self._changed:
            if not self._queue and not self._is_closed:
                self._is_late = False
                self._changed.wait(timeout)
            return self._queue.next()

    def close(self) -> None:
        """End the wait of `next`, now and later."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
