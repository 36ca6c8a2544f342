"""Writes the results of requests: reward and phase some steps after the action, or that no trainer answered."""

import math
from collections.abc import Callable
from typing import Final

from monitor_server.action_requests.requesting import ANSWER_SECONDS, end_request
from monitor_server.durations import DAY_SECONDS
from monitor_server.instrumentation.failure_log import FailureLog
from monitor_server.settings import Deadlines
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.action_requests import StoredRequest
from monitor_server.store.repositories.alert_history import HistoryEntry
from monitor_server.store.repositories.run_status import ENDED, run_status
from monitor_server.store.repositories.runs import Run

__all__ = ["RequestOutcomes"]

AFTER_STEPS: Final = 20
LONGEST_SECONDS: Final = DAY_SECONDS  # after this time the result is written with the data so far
REWARD: Final = "reward/mean"


class RequestOutcomes:
    """Checks at intervals the requests that were answered, and those that were not.

    Args:
        store: The database.
        clock: Returns seconds since the epoch.
        deadlines: The times after which a silent run has ended.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float], deadlines: Deadlines) -> None:
        self._store = store
        self._clock = clock
        self._deadlines = deadlines
        self._failures = FailureLog(
            says="the results of requests could not be written; it is tried again", work="checks of requests"
        )

    def tick(self) -> None:
        """Write the results that are due. Of several collectors, one writes a result."""
        try:
            now = self._clock()
            with self._store.read() as repositories:
                is_due = repositories.action_requests.has_unfinished() and self._is_due(repositories, now)
            if is_due:
                with self._store.write() as repositories:
                    self._write(repositories, now)
        except Exception as error:  # noqa: BLE001 - it is logged, and the other periodic work continues
            self._failures.note_failure(error)
        else:
            self._failures.note_success()

    def _is_due(self, repositories: Repositories, now: float) -> bool:
        unfollowed = repositories.action_requests.unfollowed()
        return bool(self._over(repositories, now)) or any(
            self._result(repositories, request, now) for request in unfollowed
        )

    def _write(self, repositories: Repositories, now: float) -> None:
        for request, why in self._over(repositories, now):
            end_request(repositories, request, why=why, now=now)
        for request in repositories.action_requests.unfollowed():
            run = repositories.runs.lock(request.run_id)
            result = None if run is None else self._result(repositories, request, now)
            alert = repositories.alerts.find(request.alert_id)
            if run is None or result is None or alert is None:
                continue
            if repositories.action_requests.mark_followed(request.id, now=now):
                entry = HistoryEntry(at=now, change="action_followed", by=None, why=result, step=run.last_step)
                repositories.alert_history.add(alert, entry)

    def _over(self, repositories: Repositories, now: float) -> list[tuple[StoredRequest, str]]:
        """Return the requests whose answer can no longer arrive, and the reason for which each ends."""
        late = repositories.action_requests.unanswered(requested_until=now, received_until=now - ANSWER_SECONDS)
        over = [
            (each, f"the trainer has not answered within {(now - each.requested_at) / 60.0:.0f} minutes")
            for each in late
        ]
        ended = {each.id for each in late}
        for run_id in repositories.action_requests.open_runs():
            run = repositories.runs.find(run_id)
            # The answer may be in a record that is not processed yet.
            if run is not None and run.ended is not None and run.is_projected:
                waiting = repositories.action_requests.open_of_run(run_id)
                over += [(each, f"the run is {run.ended}") for each in waiting if each.id not in ended]
        return over

    def _result(self, repositories: Repositories, request: StoredRequest, now: float) -> str | None:
        """Return the result of an action in a sentence, or None if it is too early."""
        run = repositories.runs.find(request.run_id)
        if run is None or request.step is None:
            return None
        status = run_status(run, now=now, deadlines=self._deadlines)
        has_ended = status in ENDED
        first, last = _steps_after(request, run, repositories)
        is_over = last - first + 1 >= AFTER_STEPS or now - request.changed_at >= LONGEST_SECONDS
        if not (has_ended and run.is_projected) and not is_over:
            return None
        before = _reward(repositories, run.id, request.attempt, request.step - AFTER_STEPS + 1, request.step)
        words = f"{request.action} at step {request.step}: phase {request.phase} and {before} before"
        if last < first:
            return f"{words}; the run is {status}, and no step followed"
        last = min(last, first + AFTER_STEPS - 1)
        after = _reward(repositories, run.id, max(request.attempt, run.last_attempt), first, last)
        return f"{words}, phase {run.phase} and {after} in steps {first} to {last} after; the run is {status}"


def _steps_after(request: StoredRequest, run: Run, repositories: Repositories) -> tuple[int, int]:
    """Return the first and the last step after an action; if there is none, the first is greater than the last."""
    step = request.step or 0
    if run.last_attempt <= request.attempt:
        return step + 1, max(step, run.last_step or 0)
    # After a rollback or a resume, the newest attempt begins at an earlier step.
    begun = repositories.steps.of_attempt(run.id, run.last_attempt, from_step=0, limit=1)
    return (begun[0].step, run.last_step or 0) if begun else (step + 1, step)


def _reward(repositories: Repositories, run_id: str, attempt: int, first: int, last: int) -> str:
    """Describe the mean reward of one attempt in a range of steps, which a newer attempt may have repeated."""
    steps = repositories.steps.of_attempt(run_id, attempt, from_step=max(0, first), limit=AFTER_STEPS)
    rewards = [step.signals[REWARD] for step in steps if step.step <= last and REWARD in step.signals]
    finite = [reward for reward in rewards if math.isfinite(reward)]
    return f"a mean reward of {sum(finite) / len(finite):.3g}" if finite else "a reward that was not observed"
