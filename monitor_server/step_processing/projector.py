"""The thread that projects: it takes the runs that have new entries in turns, one slice each.

All runs get turns: a run with much to do waits behind the others after each slice. A run that cannot be projected is
tried again without any state from memory and in the smallest slices, so that every step before the cause is projected.
If one of these fails as well, the run is quarantined, so that other runs are not affected.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

from monitor_server.alerts.verdict import Verdict
from monitor_server.errors import ProjectedElsewhere, Unavailable
from monitor_server.instrumentation.failure_log import FailureLog
from monitor_server.instrumentation.spans import OpenSpan, no_span
from monitor_server.rules.evaluation import RuleTracker
from monitor_server.settings import Settings
from monitor_server.step_processing.events import Event
from monitor_server.step_processing.quarantine import QUARANTINE_SECONDS
from monitor_server.step_processing.scheduling.busy_share import BusyShare
from monitor_server.step_processing.scheduling.known_verdicts import KnownVerdicts
from monitor_server.step_processing.scheduling.retried_runs import RetriedRuns
from monitor_server.step_processing.scheduling.run_turns import RunTurns
from monitor_server.step_processing.slices.projection import Projection, SliceResult
from monitor_server.store.database import Store

__all__ = ["Projector"]

log = logging.getLogger(__name__)

# Further runs are found in the store at the next ticks.
MAX_QUEUED_RUNS = 10_000
STORE_PAUSE_SECONDS = 0.5
# A later tick means that the projector hangs. A late check after a recent tick means that the database fails.
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
        is_refusing: Callable[[], bool] = lambda: False,
        span: OpenSpan = no_span,
        busy_share: BusyShare | None = None,
        max_queued_runs: int = MAX_QUEUED_RUNS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._store = store
        self._projection = projection
        self._settings = settings
        self._clock = clock
        self._publish = publish
        self._on_tick = on_tick
        self._is_refusing = is_refusing
        self._span = span
        self._rules = projection.rules
        self._turns = RunTurns(max_queued_runs)
        self._verdicts = KnownVerdicts()
        self._busy_share = busy_share or BusyShare()
        self._retried = RetriedRuns()
        self._unavailable = FailureLog(says="a slice of a run could not be projected and is tried again", work="slices")
        self._unchecked = FailureLog(
            says="deadlines could not be checked; they are checked at the next tick", work="checks of deadlines"
        )
        self._is_stopping = threading.Event()
        self._has_ticked = False
        self._is_failing = False  # whether the database has failed, and has taken no write since
        self._last_tick = self._last_checked = self._monotonic()
        self._thread = threading.Thread(target=self._run, name="rlvitals-projector", daemon=True)

    def start(self) -> None:
        """Begin to project."""
        self._thread.start()

    def stop(self) -> None:
        """End after the current slice, and give up the runs; the next start continues from there."""
        self._is_stopping.set()
        self._turns.close()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def rules(self) -> RuleTracker:
        """The evaluation of the user's own rules."""
        return self._rules

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs and keeps its rhythm."""
        return self._thread.is_alive() and self._monotonic() - self._last_tick < LATE_TICK_SECONDS

    @property
    def recent_failure(self) -> str | None:
        """The reason for which the newest slice was not projected or deadlines are not checked; None if both work."""
        is_late = self._monotonic() - self._last_checked >= LATE_TICK_SECONDS
        return self._unavailable.recent or (self._unchecked.recent if is_late else None)

    @property
    def queued_runs(self) -> int:
        """The number of runs that wait for their turn, at most ``max_queued_runs``."""
        return len(self._turns)

    @property
    def waiters(self) -> int:
        """The number of receipts that wait for their verdict; it is bounded."""
        return self._verdicts.waiters

    @property
    def caches(self) -> dict[str, Callable[[], int]]:
        """Functions that return the number of entries of each cache."""
        return self._projection.caches | {
            "verdicts": lambda: len(self._verdicts),
            "runs_of_others": lambda: self._verdicts.runs_of_others,
            "retried_runs": lambda: len(self._retried),
        }

    def is_near(self, run_id: str, position: int, *, within: int) -> bool:
        """Whether a receipt should wait for the verdict on the entries after a position of a run's log.

        It should not wait if more than ``within`` entries are projected first, if other runs wait for their turn and
        the projector has worked for much of the last second, or if another collector projects the run. After a wait
        that ended without a result, no receipt waits until the projector has nothing left to do.
        """
        is_late = self._turns.is_late or (self._turns.has_others(run_id) and self._busy_share.is_busy)
        return self._verdicts.is_near(run_id, position, within=within) and not is_late

    def report_late(self) -> None:
        """Note that a verdict did not arrive in time: no receipt waits for one until there is nothing left to do."""
        self._turns.report_late()

    def notify(self, run_ids: Iterable[str]) -> None:
        """Queue runs that have something to do. Any thread may call this."""
        self._turns.add(run_ids)

    def notify_batches(self, run_ids: Iterable[str]) -> None:
        """Queue runs for which batches were stored. Any thread may call this."""
        self._turns.add_batches(run_ids)

    def wait_for(self, run_id: str, position: int) -> "Future[None]":
        """Return a future that ends when a run is projected up to a position of its log, or cannot be projected.

        It has already ended if too many receipts wait.
        """
        future = self._verdicts.wait_for(run_id, position)
        if not future.done():
            self.notify([run_id])
        return future

    def known_verdict(self, run_id: str) -> Verdict | None:
        """Return the newest verdict on a run, if it is in memory, or None."""
        return self._verdicts.newest(run_id)

    def _run(self) -> None:
        next_tick = began = self._monotonic()
        try:
            while not self._is_stopping.is_set():
                run_id = self._turns.next(timeout=max(0.0, next_tick - self._monotonic()))
                idle_until = self._monotonic()
                self._busy_share.note(idle_until - began, is_working=False)
                if run_id is not None:
                    self._project(run_id)
                began = self._monotonic()
                self._busy_share.note(began - idle_until, is_working=run_id is not None)
                if self._monotonic() >= next_tick:
                    self._tick()
                    next_tick = self._monotonic() + self._settings.tick_seconds
        except BaseException:
            log.exception("the projector has ended; no run is detected until the collector is restarted")
            raise
        finally:
            self._end()

    def _project(self, run_id: str) -> None:
        try:
            with self._span("project slice", {"rlvitals.run_id": run_id}):
                self._require_writes()
                is_smallest = run_id in self._retried
                result = self._projection.project(self._store, run_id, is_smallest=is_smallest)
        except ProjectedElsewhere as error:
            log.info("%s", error)
            self._projection.forget(run_id)
            self.notify([run_id])  # the other process, such as retention, may not project it
        except Unavailable as error:
            self._note_fault()
            self._unavailable.note_failure(error)
            self._projection.forget()
            self.notify([run_id])
            self._is_stopping.wait(STORE_PAUSE_SECONDS)
        except Exception as error:
            # The kind of error does not matter: only this run is affected.
            log.exception("projecting run %s failed", run_id)
            self._projection.forget(run_id)
            self._fail(run_id, error)
        else:
            self._retried.note_success(run_id, has_more=result is not None and result.has_more)
            self._unavailable.note_success()
            self._verdicts.note_owner(run_id, is_elsewhere=result is None)
            if result is not None:
                self._publish(result.events)
                self._settle(run_id, result)

    def _settle(self, run_id: str, result: SliceResult) -> None:
        self._verdicts.add(run_id, result.position, result.verdict)
        if result.has_more:
            self._turns.add_unfinished(run_id)
        else:
            self._verdicts.wake(run_id, result.position)

    def _fail(self, run_id: str, error: Exception) -> None:
        if self._retried.note_failure(run_id):
            self.notify([run_id])
            return
        try:
            with self._store.write() as repositories:
                events = self._projection.quarantine(repositories, run_id, error)
        except Exception:
            log.exception("run %s could not be quarantined; it is tried again at the next tick", run_id)
        else:
            log.error("run %s is quarantined: its records are stored and no detector sees them", run_id)
            self._publish(events)
        # The last verdict here does not have the alert of the quarantine; the store does.
        self._verdicts.note_owner(run_id, is_elsewhere=True)

    def _tick(self) -> None:
        """Find the runs that have work because time has passed, or because another collector has written."""
        now, settings = self._clock(), self._settings
        # An earlier process may have left complete steps of a log that it had read to its end.
        overdue_before = now - settings.step_deadline_seconds if self._has_ticked else math.inf
        self._on_tick()
        waited_for = self._verdicts.waited_for
        is_idle = not self._turns
        try:
            self._require_writes()
            if self._is_refusing():
                self._projection.hold_statuses()
            # An earlier process may have had another clock, other deadlines or another version.
            if not self._has_ticked:
                with self._store.write() as repositories:
                    repositories.projection_queue.unsettle(now=now, deadlines=settings.deadlines)
            with self._store.read() as repositories:
                repositories.require_own_schema()  # a collector without trainers writes nothing, and would not notice
                queue = repositories.projection_queue
                due = self._rules.due_runs(repositories, now=now)
                behind = queue.behind(after=self._turns.queued_to, limit=self._turns.most)
                found = [
                    *due,
                    *repositories.waiting.overdue_runs(before=overdue_before),
                    *repositories.run_views.changed_runs(
                        now=now, deadlines=settings.deadlines, without_silent=self._projection.holds_statuses
                    ),
                    *queue.quarantined_runs(before=now - QUARANTINE_SECONDS),
                ]
                waited = {run_id: repositories.runs.find(run_id) for run_id in waited_for}
            # A collector that cannot write leaves its runs to other collectors.
            taken = 0 if self._unavailable.recent else self._projection.share(self._store, behind, is_idle=is_idle)
        except Unavailable as error:
            self._note_fault()
            self._last_tick = self._monotonic()  # the database fails, and not this thread
            self._unchecked.note_failure(error)
            return
        except Exception as error:  # noqa: BLE001 - it is logged, and runs without a deadline go on
            self._unchecked.note_failure(error)
            return
        self._last_tick = self._last_checked = self._monotonic()
        self._has_ticked = True
        self._unchecked.note_success()
        if taken:
            log.info("took %d runs from collectors that are behind", taken)
        self._turns.add_found(dict.fromkeys(found), behind)
        for run_id, run in waited.items():
            if run is None or run.quarantined_at is not None:
                self._verdicts.wake(run_id)
            elif run.is_projected and run_id not in self._turns:
                self._verdicts.wake_projected(run_id, run.position)

    def _note_fault(self) -> None:
        """Hold the statuses, until some time after the database takes writes again."""
        self._is_failing = True
        self._projection.hold_statuses()

    def _require_writes(self) -> None:
        """Write once after a fault, because slices without changes would not show that it lasts.

        Raises:
            Unavailable: If the database still takes no writes.
        """
        if self._is_failing:
            self._store.probe()
            self._is_failing = False

    def _end(self) -> None:
        for run_id in self._verdicts.waited_for:
            self._verdicts.wake(run_id)
        try:
            with self._store.write() as repositories:
                self._projection.release(repositories)
        except Exception as error:  # noqa: BLE001 - their ownership ends with time as well
            log.warning("the runs of this collector are released a little later: %s", error)
