"""The thread that removes data: one slice of each run in turn, and a pause after each so that ingest goes first.

What a person has deleted comes before what the limits remove, because its trainers are refused until it is gone.

Of several collectors on one PostgreSQL database, one at a time removes data: a slice holds an advisory lock of its
transaction, and a collector that does not get the lock tries again later.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from monitor_server.errors import Unavailable
from monitor_server.instrumentation.failure_log import FailureLog
from monitor_server.retention.policy import ROWS_PER_SLICE, Removed, RetentionPolicy, Task
from monitor_server.store.database import Store

__all__ = ["RetentionWorker"]

log = logging.getLogger(__name__)

# The thread spends at most a fifth of the time on removals.
PAUSE_PER_SECOND = 4.0
LEAST_PAUSE_SECONDS = 0.002


class RetentionWorker:
    """Removes the data that the policy finds, in a thread of its own, until it is stopped."""

    def __init__(
        self,
        store: Store,
        policy: RetentionPolicy,
        *,
        interval_seconds: float,
        on_removed: Callable[[Removed], None] = lambda _: None,
    ) -> None:
        """Build a worker, which begins with `start`.

        Args:
            store: The database.
            policy: Finds the data to remove.
            interval_seconds: The time between two searches of the policy.
            on_removed: Called after the commit of each slice.
        """
        self._store = store
        self._policy = policy
        self._interval = interval_seconds
        self._on_removed = on_removed
        self._wake = threading.Event()
        self._is_notified = threading.Event()  # until urgent tasks are searched; `_wake` lasts until the whole search
        self._failures = FailureLog(says="data could not be removed; it is tried again later", work="removals")
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rlvitals-retention", daemon=True)

    def start(self) -> None:
        """Begin to remove."""
        self._thread.start()

    def stop(self) -> None:
        """End after the current slice; the next start continues from there."""
        self._is_stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def notify(self) -> None:
        """Search for data to remove at once. Any thread may call this."""
        self._is_notified.set()
        self._wake.set()

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            self._wake.clear()
            try:
                self._remove_all()
                self._store.shorten_log()
            except Exception as error:  # noqa: BLE001 - it is logged, and tried again
                self._failures.note_failure(error)
            else:
                self._failures.note_success()
            if not self._is_stopping.is_set():  # the wake-up of `stop` may be cleared already
                self._wake.wait(self._interval)

    def _remove_all(self) -> None:
        """Remove all data that the policy finds, one slice of each task in turn, and urgent tasks before the others.

        The others may take hours, so it looks for urgent tasks meanwhile.
        """
        self._begin_deletions()
        urgent, looked = deque[Task](), -math.inf
        others: deque[Task] | None = None
        while not self._is_stopping.is_set():
            begun = time.perf_counter()
            if self._is_notified.is_set() or begun - looked > self._interval:
                self._is_notified.clear()
                looked, known = begun, set(urgent)
                with self._store.read() as repositories:
                    urgent += [each for each in self._policy.find_urgent_tasks(repositories) if each not in known]
            if not urgent and others is None:
                with self._store.read() as repositories:
                    others = deque(self._policy.find_tasks(repositories))
            tasks = urgent or others
            if not tasks:
                return
            task = tasks.popleft()
            try:
                removed = self._remove_slice(task)
            except Unavailable:
                raise
            except Exception:
                log.exception("removing %s of run %s has failed, which is tried again later", task.kind, task.run_id)
                continue  # the failure affects this run alone
            if removed is None:
                return
            self._report(removed)
            rest = removed[-1].rest
            if rest is not None:
                tasks.append(rest)
            self._pause(begun)

    def _pause(self, begun: float) -> None:
        """Let ingest go first, after work since ``begun``."""
        self._is_stopping.wait(max(LEAST_PAUSE_SECONDS, PAUSE_PER_SECOND * (time.perf_counter() - begun)))

    def _report(self, removed: Iterable[Removed]) -> None:
        for each in removed:
            if each.rows:
                self._on_removed(each)

    def _begin_deletions(self) -> None:
        """Begin to delete the runs that are too old, some in each transaction."""
        with self._store.read() as repositories:
            has_more = self._policy.deletes_runs(repositories)
        while has_more and not self._is_stopping.is_set():
            begun = time.perf_counter()
            with self._store.write() as repositories:
                has_more = repositories.lock_maintenance() and self._policy.begin_deletions(repositories)
            if has_more:
                self._pause(begun)

    def _remove_slice(self, task: Task) -> list[Removed] | None:
        """Remove a slice in one transaction; return None if another collector removes data.

        A deleted run has rows in many tables. One transaction removes the rows of several tables as long as they are
        few.
        """
        with self._store.write() as repositories:
            if not repositories.lock_maintenance():
                return None
            removed = [self._policy.remove_slice(repositories, task)]
            while task.kind == "deleted_run" and removed[-1].rest is not None and _rows(removed) < ROWS_PER_SLICE:
                removed.append(self._policy.remove_slice(repositories, task))
            return removed


def _rows(removed: Iterable[Removed]) -> int:
    return sum(each.rows for each in removed)
