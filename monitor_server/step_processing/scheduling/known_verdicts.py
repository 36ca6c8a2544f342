"""The newest verdicts of the projector, and the receipts that wait for one.

Another collector may project a run, or none can. No receipt waits here for such a run, and its verdict is dropped, so
that the newest one is read from the store. So is a verdict that is far behind the end of the log.
"""

import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import Final

from monitor_server.alerts.verdict import Verdict

__all__ = ["KnownVerdicts"]

MAX_VERDICTS: Final = 4_096
# A verdict in memory that is further behind the end of its run's log is ignored, and the store is read.
MAX_ENTRIES_BEHIND: Final = 100_000
# Further receipts are answered with the verdict that is already known.
MAX_WAITERS: Final = 1_000


class KnownVerdicts:
    """Keeps a verdict for each run with its position in the log. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._verdicts: OrderedDict[str, tuple[int, Verdict]] = OrderedDict()
        self._elsewhere: OrderedDict[str, None] = OrderedDict()  # runs that were not projected here at the last check
        self._waiters: dict[str, list[tuple[int, Future[None]]]] = {}
        self._waiter_count = 0

    def __len__(self) -> int:
        return len(self._verdicts)

    @property
    def runs_of_others(self) -> int:
        """The number of runs that another collector projects, or that are quarantined, at most `MAX_VERDICTS`."""
        return len(self._elsewhere)

    @property
    def waiters(self) -> int:
        """The number of receipts that wait for their verdict, at most `MAX_WAITERS`."""
        return self._waiter_count

    @property
    def waited_for(self) -> list[str]:
        """The runs for which receipts wait for a verdict."""
        with self._lock:
            return list(self._waiters)

    def newest(self, run_id: str) -> Verdict | None:
        """Return the newest verdict on a run, if it is in memory, or None."""
        with self._lock:
            known = self._verdicts.get(run_id)
        return None if known is None else known[1]

    def is_near(self, run_id: str, position: int, *, within: int) -> bool:
        """Whether the run is projected here, and at most ``within`` entries up to a position of its log are left."""
        with self._lock:
            known = self._verdicts.get(run_id)
            # The verdict is too old, or the run was deleted and began again.
            if known is not None and position - known[0] > MAX_ENTRIES_BEHIND:
                del self._verdicts[run_id]
                known = None
            return run_id not in self._elsewhere and (known is None or position - known[0] <= within)

    def add(self, run_id: str, position: int, verdict: Verdict) -> None:
        """Keep a verdict. This ends no wait yet."""
        with self._lock:
            self._verdicts[run_id] = (position, verdict)
            self._verdicts.move_to_end(run_id)
            if len(self._verdicts) > MAX_VERDICTS:
                self._verdicts.popitem(last=False)

    def note_owner(self, run_id: str, *, is_elsewhere: bool) -> None:
        """Remember whether another collector projects a run; if so, drop its verdict and end the waits for it.

        A run that cannot be projected is treated in the same way: the store alone has its newest verdict.
        """
        with self._lock:
            self._elsewhere.pop(run_id, None)
            if is_elsewhere:
                self._verdicts.pop(run_id, None)
                self._elsewhere[run_id] = None
                if len(self._elsewhere) > MAX_VERDICTS:
                    self._elsewhere.popitem(last=False)
        if is_elsewhere:
            self.wake(run_id)

    def wait_for(self, run_id: str, position: int) -> "Future[None]":
        """Return a future that `wake` ends. It has already ended if too many receipts wait."""
        future: Future[None] = Future()
        with self._lock:
            all_waiters = self._waiters.get(run_id, [])
            others = [waiter for waiter in all_waiters if not waiter[1].cancelled()]
            self._waiter_count += len(others) - len(all_waiters)
            if self._waiter_count >= MAX_WAITERS:
                future.set_result(None)
                return future
            self._waiters[run_id] = [*others, (position, future)]
            self._waiter_count += 1
        return future

    def wake(self, run_id: str, position: int | None = None) -> None:
        """End the waits for a run up to a position of its log, or all of them."""
        with self._lock:
            waiters = self._waiters.pop(run_id, [])
            ended = [future for place, future in waiters if position is None or place <= position]
            left = [] if position is None else [waiter for waiter in waiters if waiter[0] > position]
            if left:
                self._waiters[run_id] = left
            self._waiter_count -= len(ended)
        for future in ended:
            if future.set_running_or_notify_cancel():
                future.set_result(None)

    def wake_projected(self, run_id: str, position: int) -> None:
        """End the waits for a run that another collector has projected, if the verdict here is older."""
        with self._lock:
            known = self._verdicts.get(run_id)
            if known is not None and any(place > known[0] for place, _ in self._waiters.get(run_id, [])):
                del self._verdicts[run_id]
        self.wake(run_id, position)
