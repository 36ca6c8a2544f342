"""The thread that commits. It writes all waiting jobs in one transaction, and answers each after the commit.

A job that fails is undone alone; the other jobs of its commit are kept. Every job ends with its answer, with its error,
or with `Unavailable` if the writer stops before the job could begin.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from monitor_server.errors import Unavailable
from monitor_server.instrumentation.failure_log import FailureLog
from monitor_server.store.database import Store
from monitor_server.store.faults import concerns_all, connection_loss
from monitor_server.store.repositories import Repositories

__all__ = ["Writer"]

log = logging.getLogger(__name__)

# Enough to make the cost of a commit small, few enough to answer the first job soon.
MAX_JOBS_PER_COMMIT = 128
# A heavier commit would delay all other jobs; a larger batch gets a commit of its own.
MAX_WEIGHT_PER_COMMIT = 2_000
# A commit waits a shorter time for a run that is locked elsewhere, and only that run then fails. A statement on a slow
# database may take a longer time, and then all jobs fail. A sender may wait for two commits, and waits for 30 s.
LONGEST_COMMIT_SECONDS = 11.5
LOCK_AGAIN_SECONDS = 0.5

# A commit costs as much processor time as three appends, and waits for the disk. So a commit waits for the senders
# whose batches were in the last commit, or arrived during it: for a share of its duration, between these bounds.
# Otherwise the senders that wait for their answers fall into two groups, and each group always waits for the commit of
# the other.
GATHERING_SHARE = 0.25
MIN_GATHERING_SECONDS = 0.0005
MAX_GATHERING_SECONDS = 0.02

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Job(Generic[Result]):
    """Work to do in a transaction, the future of its result, its approximate rows, and the bytes that it holds."""

    run_id: str
    work: Callable[[Repositories], Result]
    future: "Future[Result]"
    weight: int
    size: int = 0


class Writer:
    """Runs jobs in group commits."""

    def __init__(
        self,
        store: Store,
        *,
        max_waiting: int,
        max_waiting_bytes: int | None = None,
        before_commit: Callable[[Repositories], None] = lambda _: None,
        on_commit: Callable[[Iterable[str]], None] = lambda _: None,
        on_failure: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        """Build a writer, which begins with `start`.

        Args:
            store: The database.
            max_waiting: The largest number of jobs that may wait.
            max_waiting_bytes: The largest number of bytes that waiting jobs may hold; a larger job may wait alone.
            before_commit: Called at the end of each transaction, to write the deferred part of the jobs. It may commit.
            on_commit: Called with the runs of a commit that succeeded.
            on_failure: Called with the run of a job that was undone, or None for all runs.
        """
        self._store = store
        self._before_commit = before_commit
        self._on_commit = on_commit
        self._on_failure = on_failure
        self._jobs: queue.Queue[_Job[Any] | None] = queue.Queue(maxsize=max_waiting)
        self._max_waiting_bytes = max_waiting_bytes
        self._waiting_bytes = 0
        self._is_stopping = threading.Event()
        self._queueing = threading.Lock()  # no job is queued once the writer stops
        self._is_idle = True
        self._failures = FailureLog(says="a commit failed; its batches were not acknowledged", work="commits")
        self._expected = 1  # the jobs of the last commit, plus those that waited at its end
        self._gathering_seconds = MIN_GATHERING_SECONDS
        self._thread = threading.Thread(target=self._run, name="rlvitals-writer", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Commit the jobs that wait, refuse every later one, and end."""
        with self._queueing:
            self._is_stopping.set()
        with suppress(queue.Full):
            self._jobs.put_nowait(None)  # wakes a writer that has nothing to do
        if self._thread.ident is not None:
            self._thread.join()
        self._refuse_waiting()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def recent_failure(self) -> str | None:
        """The reason for which the newest commit failed, for a while after it; None if it succeeded."""
        return self._failures.recent

    @property
    def is_idle(self) -> bool:
        """Whether no job waits and no transaction is under way."""
        return self._is_idle

    @property
    def waiting(self) -> int:
        """The number of jobs that wait."""
        return self._jobs.qsize()

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes that the waiting jobs hold."""
        return self._waiting_bytes

    def submit(
        self, run_id: str, work: Callable[[Repositories], Result], *, weight: int = 1, size: int = 0
    ) -> "Future[Result]":
        """Queue a job; the future is done when it is committed.

        Raises:
            Unavailable: If too many jobs or bytes wait, or the writer stops.
        """
        job = _Job(run_id, work, Future[Result](), weight, size)
        with self._queueing:
            if self._is_stopping.is_set():
                raise _stopping()
            held = self._waiting_bytes
            if self._max_waiting_bytes is not None and held and held + size > self._max_waiting_bytes:
                raise Unavailable(f"batches of {held:,} bytes wait to be written; send again later")
            self._is_idle = False
            try:
                self._jobs.put_nowait(job)
                self._waiting_bytes += size
            except queue.Full:
                raise Unavailable(f"{self._jobs.maxsize} batches wait to be written; send again later") from None
        return job.future

    def _run(self) -> None:
        try:
            while not (self._is_stopping.is_set() and self._jobs.empty()):
                jobs = self._gather()
                self._commit(jobs)
        except BaseException:
            log.exception("the writer has ended; nothing is stored until the collector is restarted")
            raise
        finally:
            with self._queueing:
                self._is_stopping.set()
            self._refuse_waiting()

    def _gather(self) -> list[_Job[Any]]:
        """Wait for a job, then take all that have gathered meanwhile, except those whose sender has stopped waiting."""
        jobs: list[_Job[Any]] = []
        weight = 0
        try:
            if self._jobs.empty():
                self._is_idle = True
            job = self._jobs.get()
            self._is_idle = False
            until = time.monotonic() + self._gathering_seconds
            while True:
                if job is not None:
                    with self._queueing:
                        self._waiting_bytes -= job.size
                if job is not None and job.future.set_running_or_notify_cancel():
                    jobs.append(job)
                    weight += job.weight
                if len(jobs) >= MAX_JOBS_PER_COMMIT or weight >= MAX_WEIGHT_PER_COMMIT:
                    break
                job = self._next_soon(len(jobs), until)
        except queue.Empty:
            pass
        return jobs

    def _next_soon(self, gathered: int, until: float) -> "_Job[Any] | None":
        """Return the next job that waits; if fewer than expected have gathered, wait for one until the given time."""
        seconds = until - time.monotonic()
        if gathered >= self._expected or seconds <= 0 or self._is_stopping.is_set():
            return self._jobs.get_nowait()
        return self._jobs.get(timeout=seconds)

    def _commit(self, jobs: list[_Job[Any]]) -> None:
        if not jobs:
            return
        begin = time.monotonic()
        # The order is the same on every collector, so that two of them do not wait for each other's runs. A job that
        # locks other runs than the one it is named after may cost a second; the database then ends one of the two.
        ordered = sorted(jobs, key=lambda job: job.run_id)
        try:
            done, failed = self._write(ordered)
        except Exception as error:  # noqa: BLE001 - it is logged, and is the answer of every job
            self._failures.note_failure(error)
            self._on_failure(None)
            refusal = error if isinstance(error, Unavailable) else _not_committed()
            done, failed = [], [(job, refusal) for job in ordered]
        else:
            # A full disk may have room for the commit, but not for the rows of any of the jobs.
            fault = next((failure for _, failure in failed if concerns_all(failure)), None)
            if fault is not None:
                self._failures.note_failure(fault)
            elif done or not all(isinstance(failure, Unavailable) for _, failure in failed):
                self._failures.note_success()  # where every run is locked elsewhere, nothing has succeeded
        share = GATHERING_SHARE * (time.monotonic() - begin)
        self._gathering_seconds = min(max(share, MIN_GATHERING_SECONDS), MAX_GATHERING_SECONDS)
        # The writer does not wait for a sender that was alone in the last commit.
        self._expected = len(jobs) + self._jobs.qsize() if len(jobs) > 1 else 1
        self._on_commit({job.run_id for job, _ in done})
        for job, result in done:
            job.future.set_result(result)
        for job, failure in failed:
            job.future.set_exception(failure)

    def _write(self, jobs: list[_Job[Any]]) -> tuple[list[tuple[_Job[Any], Any]], list[tuple[_Job[Any], Exception]]]:
        """Run jobs in one transaction; if one fails, run them again with a savepoint for each, as time allows."""
        begun = time.monotonic()
        is_jobs_fault = False
        try:
            with self._store.write() as repositories:
                is_jobs_fault = True
                done = [(job, job.work(repositories)) for job in jobs]
                self._before_commit(repositories)
                is_jobs_fault = False  # a failure from here on concerns the commit of all jobs
        except Exception as error:
            is_slow = isinstance(error, Unavailable) and time.monotonic() - begun > LONGEST_COMMIT_SECONDS
            if not is_jobs_fault or is_slow:
                raise
            self._on_failure(None)  # the code below finds the job that failed and decides about it
        else:
            return done, []
        done = []
        failed: list[tuple[_Job[Any], Exception]] = []
        locked: set[str] = set()  # the runs that are locked elsewhere: each of their jobs would wait again
        with self._store.write() as repositories:
            repositories.limit_lock_waits(LOCK_AGAIN_SECONDS)
            for job in jobs:
                if job.run_id in locked or time.monotonic() - begun > LONGEST_COMMIT_SECONDS:
                    failed.append((job, _not_committed()))
                    continue
                try:
                    with repositories.savepoint():
                        result = job.work(repositories)
                        self._before_commit(repositories)
                    done.append((job, result))
                except Exception as error:  # noqa: BLE001 - one job must not undo the other jobs of its commit
                    if loss := connection_loss(error):
                        raise loss from None
                    self._on_failure(job.run_id)
                    failed.append((job, error))
                    if isinstance(error, Unavailable):
                        locked.add(job.run_id)
        return done, failed

    def _refuse_waiting(self) -> None:
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return
            if job is not None and job.future.set_running_or_notify_cancel():
                job.future.set_exception(_stopping())


def _not_committed() -> Unavailable:
    return Unavailable("the store could not commit; send again later")


def _stopping() -> Unavailable:
    return Unavailable("the collector stops, and nothing of this was stored; send again later")
