"""The one thread that writes: commits everything that waits in one transaction, and answers only then.

A batch that fails is undone alone; the others of its commit stand. What a batch does to the store is `pipeline`'s.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from monitor_server.errors import Unavailable
from monitor_server.ingest.validate import ValidBatch
from monitor_server.projection.events import Event
from monitor_server.projection.pipeline import Outcome, PersonsWord, Pipeline
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from trainer_hooks.wire import Receipt

__all__ = ["Writer"]

log = logging.getLogger(__name__)

# Enough to make the cost of a commit small, few enough to answer the first batch soon.
MAX_BATCHES_PER_COMMIT = 128

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Job(Generic[Answer]):
    """Something to do in a transaction, and who waits for its answer."""

    run_id: str
    work: Callable[[Repositories], Outcome[Answer]]
    future: "Future[Answer]"


class Writer:
    """Runs batches through the pipeline in group commits, and its tick in between."""

    def __init__(
        self,
        store: Store,
        pipeline: Pipeline,
        *,
        publish: Callable[[Sequence[Event]], None],
        max_waiting: int,
        tick_seconds: float,
    ) -> None:
        self._store = store
        self._pipeline = pipeline
        self._publish = publish
        self._tick_seconds = tick_seconds
        self._jobs: queue.Queue[_Job[Any] | None] = queue.Queue(maxsize=max_waiting)
        self._thread = threading.Thread(target=self._run, name="rlvitals-writer", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, then end."""
        self._jobs.put(None)
        self._thread.join()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def submit(self, intake: ValidBatch) -> "Future[Receipt]":
        """Queue a batch; the future is done when it is committed.

        Raises:
            Unavailable: If too many batches wait.
        """
        return self._queue(intake.run_id, lambda repositories: self._pipeline.ingest(repositories, intake))

    def acknowledge(self, word: PersonsWord) -> "Future[None]":
        """Queue a person's word on an alert, in its place among the steps; the future is done when it is committed.

        Raises:
            Unavailable: If too many batches wait.
        """
        return self._queue(word.run_id, lambda repositories: self._pipeline.acknowledge(repositories, word))

    def _queue(self, run_id: str, work: Callable[[Repositories], Outcome[Answer]]) -> "Future[Answer]":
        job = _Job(run_id, work, Future[Answer]())
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            raise Unavailable(f"{self._jobs.maxsize} batches wait to be written; send again later") from None
        return job.future

    def _run(self) -> None:
        next_tick = time.monotonic()
        stopping = False
        while not stopping:
            jobs, stopping = self._gather(timeout=max(0.0, next_tick - time.monotonic()))
            if jobs:
                self._commit(jobs)
            if time.monotonic() >= next_tick:
                self._tick()
                next_tick = time.monotonic() + self._tick_seconds

    def _gather(self, *, timeout: float) -> tuple[list[_Job[Any]], bool]:
        """Wait for a batch, then take all that have gathered meanwhile."""
        jobs: list[_Job[Any]] = []
        try:
            job = self._jobs.get(timeout=timeout)
            while job is not None:
                jobs.append(job)
                if len(jobs) == MAX_BATCHES_PER_COMMIT:
                    return jobs, False
                job = self._jobs.get_nowait()
        except queue.Empty:
            return jobs, False
        return jobs, True

    def _commit(self, jobs: list[_Job[Any]]) -> None:
        done: list[tuple[_Job[Any], Outcome[Any]]] = []
        try:
            with self._store.write() as repositories:
                for job in jobs:
                    outcome = self._process(repositories, job)
                    if outcome is not None:
                        done.append((job, outcome))
        except Exception:
            log.exception("a commit failed; its batches were not acknowledged")
            self._pipeline.forget()
            for job in jobs:
                if not job.future.done():
                    job.future.set_exception(Unavailable("the store could not commit; send again later"))
            return
        for job, outcome in done:
            self._publish(outcome.events)
            job.future.set_result(outcome.answer)

    def _process(self, repositories: Repositories, job: _Job[Any]) -> Outcome[Any] | None:
        try:
            with repositories.savepoint():
                return job.work(repositories)
        except Exception as error:  # noqa: BLE001 - one batch must not take the others of its commit with it
            self._pipeline.forget(job.run_id)
            job.future.set_exception(error)
            return None

    def _tick(self) -> None:
        try:
            with self._store.write() as repositories:
                events = self._pipeline.tick(repositories)
        except Exception:
            log.exception("looking at deadlines failed; tried again at the next tick")
            self._pipeline.forget()
        else:
            self._publish(events)
