"""The thread that projects: it takes the runs that have something new in turns, one slice each.

Runs are fair to each other: a run with much to do waits behind the others after each slice. A run that cannot be
projected is tried once more without anything from memory, and then quarantined, so that it costs itself alone.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

from monitor_server.alerts.verdict import Verdict
from monitor_server.errors import ProjectedElsewhere, Unavailable
from monitor_server.instrumentation.spans import OpenSpan, no_span
from monitor_server.rules.evaluation import RuleTracker
from monitor_server.settings import Settings
from monitor_server.step_processing.events import Event
from monitor_server.step_processing.quarantine import QUARANTINE_SECONDS
from monitor_server.step_processing.scheduling.busy_share import BusyShare
from monitor_server.step_processing.scheduling.run_queue import RunQueue
from monitor_server.step_processing.slices import Projection, Slice
from monitor_server.store.database import Store

__all__ = ["Projector"]

log = logging.getLogger(__name__)

MAX_VERDICTS = 4_096
# A verdict in memory that is further behind the end of its run's log is read from the store instead.
MAX_ENTRIES_BEHIND = 100_000
# Runs beyond these are found in the store by the next tick.
MAX_QUEUED_RUNS = 10_000
# Receipts beyond these are answered with the verdict that is known.
MAX_WAITERS = 1_000
STORE_PAUSE_SECONDS = 0.5
# A tick that is later than this means that the projector hangs, or waits for the database.
LATE_TICK_SECONDS = 30.0


class Projector:
    """Projects runs in a thread of its own."""

    def __init__(
        self,
        store: Store,
        projection: Projection,
        *,
        settings: Settings,
        clock: Callable[[], float],
        publish: Callable[[Sequence[Event]], None],
        on_tick: Callable[[], None] = lambda: None,
        span: OpenSpan = no_span,
        busy_share: BusyShare | None = None,
        max_queued_runs: int = MAX_QUEUED_RUNS,
    ) -> None:
        self._store = store
        self._projection = projection
        self._settings = settings
        self._clock = clock
        self._publish = publish
        self._on_tick = on_tick
        self._span = span
        self._rules = projection.rules
        self._changed = threading.Condition()
        self._queue = RunQueue(max_queued_runs)
        self._waiters: dict[str, list[tuple[int, Future[None]]]] = {}
        self._verdicts: OrderedDict[str, tuple[int, Verdict]] = OrderedDict()
        self._waiter_count = 0
        self._is_behind = False
        self._busy_share = busy_share or BusyShare()
        self._elsewhere: OrderedDict[str, None] = OrderedDict()  # runs that another projector owned when last asked
        self._failures: dict[str, int] = {}
        self._is_stopping = threading.Event()
        self._last_tick = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="rlvitals-projector", daemon=True)

    def start(self) -> None:
        """Begin to project."""
        self._thread.start()

    def stop(self) -> None:
        """End after the slice that is worked on, and leave the runs to others; the next start continues from there."""
        self._is_stopping.set()
        with self._changed:
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def rules(self) -> RuleTracker:
        """The rules of the user's own that are evaluated here."""
        return self._rules

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs and keeps its rhythm."""
        return self._thread.is_alive() and time.monotonic() - self._last_tick < LATE_TICK_SECONDS

    @property
    def queued_runs(self) -> int:
        """How many runs wait for their turn, at most `MAX_QUEUED_RUNS`."""
        return len(self._queue)

    @property
    def waiters(self) -> int:
        """How many receipts wait for their verdict, at most `MAX_WAITERS`."""
        return self._waiter_count

    @property
    def caches(self) -> dict[str, Callable[[], int]]:
        """What returns the number of entries of each cache."""
        return self._projection.caches | {
            "verdicts": lambda: len(self._verdicts),
            "runs_of_others": lambda: len(self._elsewhere),
        }

    def is_near(self, run_id: str, position: int, *, within: int) -> bool:
        """Whether it is worth waiting for the verdict on what follows a position of a run's log.

        It is not where more than ``within`` entries are projected first, where other runs wait for their turn and the
        projector has worked for much of the last second, where another collector projects the run, and after a wait
        that ended without a result until there was nothing left to do.
        """
        self._forget_distant_verdict(run_id, position)
        with self._changed:
            known, is_elsewhere = self._verdicts.get(run_id), run_id in self._elsewhere
            others_wait = len(self._queue) > (run_id in self._queue)
        is_late = self._is_behind or (others_wait and self._busy_share.is_busy)
        return not (is_late or is_elsewhere) and (known is None or position - known[0] <= within)

    def _forget_distant_verdict(self, run_id: str, position: int) -> None:
        """Drop a verdict far behind the log: another collector projects the run, or it was deleted and begins anew."""
        with self._changed:
            known = self._verdicts.get(run_id)
            if known is not None and position - known[0] > MAX_ENTRIES_BEHIND:
                del self._verdicts[run_id]

    def report_late(self) -> None:
        """Note that a verdict did not come in time: nobody waits for one until there is nothing left to do."""
        self._is_behind = True

    def notify(self, run_ids: Iterable[str]) -> None:
        """Queue runs that have something to do. Called from any thread."""
        self._enqueue(run_ids, self._queue.add)

    def notify_batches(self, run_ids: Iterable[str]) -> None:
        """Queue runs for which batches were stored. Called from any thread."""
        self._enqueue(run_ids, self._queue.add_batch)

    def _enqueue(self, run_ids: Iterable[str], add: Callable[[str], bool]) -> None:
        with self._changed:
            for run_id in run_ids:
                if not add(run_id):
                    break
            self._changed.notify()

    def wait_for(self, run_id: str, position: int) -> "Future[None]":
        """Return a future that is done when a run is projected up to a position of its log, or cannot be.

        It is done at once where too many wait already.
        """
        future: Future[None] = Future()
        with self._changed:
            others = [waiter for waiter in self._waiters.get(run_id, []) if not waiter[1].cancelled()]
            self._waiter_count += len(others) - len(self._waiters.get(run_id, []))
            if self._waiter_count >= MAX_WAITERS:
                future.set_result(None)
                return future
            self._waiters[run_id] = [*others, (position, future)]
            self._waiter_count += 1
        self.notify([run_id])
        return future

    def known_verdict(self, run_id: str) -> Verdict | None:
        """Return the newest verdict on a run that is in memory, or None."""
        with self._changed:
            known = self._verdicts.get(run_id)
        return None if known is None else known[1]

    def _run(self) -> None:
        next_tick = began = time.monotonic()
        try:
            while not self._is_stopping.is_set():
                run_id = self._next(timeout=max(0.0, next_tick - time.monotonic()))
                idle_until = time.monotonic()
                self._busy_share.note(idle_until - began, is_working=False)
                if run_id is not None:
                    self._project(run_id)
                began = time.monotonic()
                self._busy_share.note(began - idle_until, is_working=run_id is not None)
                if time.monotonic() >= next_tick:
                    self._tick()
                    next_tick = time.monotonic() + self._settings.tick_seconds
        except BaseException:
            log.exception("the projector has ended; no run is detected until the collector is restarted")
            raise
        finally:
            self._end()

    def _next(self, *, timeout: float) -> str | None:
        with self._changed:
            if not self._queue and not self._is_stopping.is_set():
                self._is_behind = False
                self._changed.wait(timeout)
            return self._queue.next()

    def _project(self, run_id: str) -> None:
        try:
            with self._span("project slice", {"rlvitals.run_id": run_id}):
                result = self._projection.project(self._store, run_id)
        except ProjectedElsewhere as error:
            log.info("%s", error)
            self._projection.forget(run_id)
        except Unavailable as error:
            log.warning("run %s could not be projected and is tried again: %s", run_id, error)
            self._projection.forget()
            self.notify([run_id])
            self._is_stopping.wait(STORE_PAUSE_SECONDS)
        except Exception as error:
            # Whatever the error is, only this run is affected.
            log.exception("projecting run %s failed", run_id)
            self._projection.forget(run_id)
            self._fail(run_id, error)
        else:
            self._failures.pop(run_id, None)
            self._note_owner(run_id, is_elsewhere=result is None)
            if result is not None:
                self._publish(result.events)
                self._settle(run_id, result)

    def _note_owner(self, run_id: str, *, is_elsewhere: bool) -> None:
        """Remember whose run it is: nobody waits here for the verdict of another collector."""
        with self._changed:
            self._elsewhere.pop(run_id, None)
            if is_elsewhere:
                self._elsewhere[run_id] = None
                if len(self._elsewhere) > MAX_VERDICTS:
                    self._elsewhere.popitem(last=False)
        if is_elsewhere:
            self._wake(run_id, None)

    def _settle(self, run_id: str, result: Slice) -> None:
        with self._changed:
            self._verdicts[run_id] = (result.position, result.verdict)
            self._verdicts.move_to_end(run_id)
            if len(self._verdicts) > MAX_VERDICTS:
                self._verdicts.popitem(last=False)
        if result.has_more:
            with self._changed:
                self._queue.add_behind(run_id)
        else:
            self._wake(run_id, result.position)

    def _wake(self, run_id: str, position: int | None) -> None:
        """End the waits for a run up to a position, or all of them."""
        with self._changed:
            waiters = self._waiters.pop(run_id, [])
            left = [waiter for waiter in waiters if position is not None and waiter[0] > position]
            if left:
                self._waiters[run_id] = left
            self._waiter_count += len(left) - len(waiters)
        for place, future in waiters:
            if (place, future) not in left and future.set_running_or_notify_cancel():
                future.set_result(None)

    def _fail(self, run_id: str, error: Exception) -> None:
        self._failures[run_id] = self._failures.get(run_id, 0) + 1
        if self._failures[run_id] == 1:
            self.notify([run_id])
            return
        del self._failures[run_id]
        try:
            with self._store.write() as repositories:
                events = self._projection.quarantine(repositories, run_id, error)
        except Exception:
            log.exception("run %s could not be quarantined; it is tried again at the next tick", run_id)
        else:
            log.error("run %s is quarantined: its records are stored and no detector sees them", run_id)
            self._publish(events)
        self._wake(run_id, None)

    def _tick(self) -> None:
        """Find the runs that the clock, or another collector, has given something to do."""
        now, settings = self._clock(), self._settings
        self._on_tick()
        with self._changed:
            waited_for = list(self._waiters)
        try:
            with self._store.read() as repositories:
                queue = repositories.projection_queue
                due = self._rules.due_runs(repositories, now=now)
                found = [
                    *due,
                    *repositories.waiting.overdue(before=now - settings.step_deadline_seconds),
                    *repositories.run_views.changed(now=now, deadlines=settings.deadlines),
                    *queue.behind(),
                    *queue.quarantined(before=now - QUARANTINE_SECONDS),
                ]
                waited = {run_id: repositories.runs.find(run_id) for run_id in waited_for}
        except Unavailable as error:
            log.warning("deadlines could not be checked; they are checked at the next tick: %s", error)
            return
        except Exception:
            log.exception("deadlines could not be checked; they are checked at the next tick")
            return
        self._last_tick = time.monotonic()
        self.notify(dict.fromkeys(found))
        for run_id, run in waited.items():
            if run is None or run.quarantined_at is not None:
                self._wake(run_id, None)
            elif run.position >= run.log_end and run_id not in self._queue:
                self._forget_verdict(run_id)
                self._wake(run_id, run.position)

    def _forget_verdict(self, run_id: str) -> None:
        """Drop the verdict on a run that another collector has projected."""
        with self._changed:
            known = self._verdicts.get(run_id)
            if known is not None and any(place > known[0] for place, _ in self._waiters.get(run_id, [])):
                del self._verdicts[run_id]

    def _end(self) -> None:
        with self._changed:
            run_ids = list(self._waiters)
        for run_id in run_ids:
            self._wake(run_id, None)
        try:
            with self._store.write() as repositories:
                self._projection.release(repositories)
        except Exception as error:  # noqa: BLE001 - they are released by the clock as well
            log.warning("the runs of this collector are released a little later: %s", error)
