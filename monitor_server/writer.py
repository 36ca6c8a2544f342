"""The one thread that writes: commits everything that waits in one transaction, and answers only then.

A batch that fails is undone alone; the others of its commit stand. What a batch does to the store is `pipeline`'s.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from monitor_server.errors import Unavailable
from monitor_server.intake import Intake
from monitor_server.pipeline import Outcome, Pipeline
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from monitor_server.stream import Event
from trainer_hooks.wire import Receipt

__all__ = ["Writer"]

log = logging.getLogger(__name__)

# Enough to make the cost of a commit small, few enough to answer the first batch soon.
MAX_BATCHES_PER_COMMIT = 128

Job = tuple[Intake, "Future[Receipt]"]


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
        self._jobs: queue.Queue[Job | None] = queue.Queue(maxsize=max_waiting)
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

    def submit(self, intake: Intake) -> "Future[Receipt]":
        """Queue a batch; the future is done when it is committed.

        Raises:
            Unavailable: If too many batches wait.
        """
        future: Future[Receipt] = Future()
        try:
            self._jobs.put_nowait((intake, future))
        except queue.Full:
            raise Unavailable(f"{self._jobs.maxsize} batches wait to be written; send again later") from None
        return future

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

    def _gather(self, *, timeout: float) -> tuple[list[Job], bool]:
        """Wait for a batch, then take all that have gathered meanwhile."""
        jobs: list[Job] = []
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

    def _commit(self, jobs: list[Job]) -> None:
        done: list[tuple[Future[Receipt], Outcome]] = []
        try:
            with self._store.write() as repositories:
                for intake, future in jobs:
                    outcome = self._process(repositories, intake, future)
                    if outcome is not None:
                        done.append((future, outcome))
        except Exception:
            log.exception("a commit failed; its batches were not acknowledged")
            self._pipeline.forget()
            for _, future in jobs:
                if not future.done():
                    future.set_exception(Unavailable("the store could not commit; send again later"))
            return
        for future, outcome in done:
            self._publish(outcome.events)
            future.set_result(outcome.receipt)

    def _process(self, repositories: Repositories, intake: Intake, future: "Future[Receipt]") -> Outcome | None:
        try:
            with repositories.savepoint():
                return self._pipeline.ingest(repositories, intake)
        except Exception as error:  # noqa: BLE001 - one batch must not take the others of its commit with it
            self._pipeline.forget(intake.run_id)
            future.set_exception(error)
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
