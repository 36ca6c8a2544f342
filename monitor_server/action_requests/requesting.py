"""Requests an action from a trainer, and records its answer, each in the history of the alert."""

import uuid
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final

from monitor_server.durations import HOUR_SECONDS
from monitor_server.errors import RequestNotPossible, UnknownAlert
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.action_requests import StoredRequest
from monitor_server.store.repositories.alert_history import HistoryEntry
from trainer_hooks.wire import ActionReport

__all__ = [
    "ANSWER_SECONDS",
    "REQUEST_SECONDS",
    "RequestState",
    "RequestableAction",
    "end_request",
    "record_answer",
    "request_action",
]

REQUEST_SECONDS: Final = 600.0  # a person who requests the stop of a run does not mean the run of the next day
# A request that the trainer has received waits this long after its end for the answer, which comes with a step.
ANSWER_SECONDS: Final = HOUR_SECONDS
UNKNOWN_OUTCOME: Final = "it is not known whether the trainer has carried it out"


class RequestableAction(StrEnum):
    """The actions that people may request from a trainer."""

    STOP = "stop"
    """End training after the current step."""
    ROLLBACK = "rollback"
    """Go back to the last healthy checkpoint."""
    CHECKPOINT = "checkpoint"
    """Save a checkpoint."""
    ENABLE_LLDS = "enable_llds"
    """Turn on the regulariser LLDS."""


class RequestState(StrEnum):
    """The state of a request."""

    REQUESTED = "requested"
    """It is sent with the receipts of the trainer's batches."""
    RECEIVED = "received"
    """The trainer has received it, and acts after a step on which all its ranks agree."""
    DONE = "done"
    """The trainer has acted."""
    REFUSED = "refused"
    """The trainer does not do it, and states the reason."""
    EXPIRED = "expired"
    """The trainer has not answered in time, was started again, or has ended."""


OPEN: Final = (RequestState.REQUESTED, RequestState.RECEIVED)
# The state that follows from each report of a trainer, and the states before it: a late answer is accepted.
ANSWERS: Final[Mapping[str, tuple[RequestState, tuple[RequestState, ...]]]] = {
    "received": (RequestState.RECEIVED, (RequestState.REQUESTED,)),
    "taken": (RequestState.DONE, (*OPEN, RequestState.EXPIRED)),
    "refused": (RequestState.REFUSED, (*OPEN, RequestState.EXPIRED)),
    "dry_run": (RequestState.REFUSED, (*OPEN, RequestState.EXPIRED)),
}
DRY_RUN: Final = "the trainer's policy is a dry run: ActionPolicy(dry_run=False) lets it act"


def request_action(
    repositories: Repositories, alert_id: str, action: RequestableAction, *, by: str, note: str, now: float
) -> StoredRequest:
    """Request an action from the trainer of an alert's run.

    Args:
        repositories: An open transaction.
        alert_id: The alert.
        action: The requested action.
        by: The person who requests it.
        note: The reason.
        now: Seconds since the epoch.

    Raises:
        UnknownAlert: If there is no such alert.
        RequestNotPossible: If the alert is resolved, if the run has ended, if the same request waits for its answer, or
            if the run has a request to stop and this one is a rollback.
    """
    found = repositories.alerts.find(alert_id)
    run = None if found is None else repositories.runs.lock(found.run_id)
    alert = repositories.alerts.find(alert_id)  # read again, because a step may have resolved it before the lock
    if alert is None or run is None:
        raise UnknownAlert.by_id(alert_id)
    if alert.state == "resolved":
        raise RequestNotPossible("the alert is resolved; an action can only be requested while its alert is open")
    if run.ended is not None:
        raise RequestNotPossible(f"the run is {run.ended}; only a trainer that sends can be asked for an action")
    excluding = {action, RequestableAction.STOP} if action == RequestableAction.ROLLBACK else {action}
    for waiting in repositories.action_requests.open_of_run(run.id):
        if waiting.action in excluding:
            raise RequestNotPossible(
                f"{waiting.requested_by} has asked for {waiting.action} already; wait for the answer"
            )
    request = StoredRequest(
        id=uuid.uuid4().hex,
        run_id=run.id,
        alert_id=alert.id,
        action=str(action),
        attempt=run.attempt,
        requested_at=now,
        requested_by=by,
        note=note,
        expires_at=now + REQUEST_SECONDS,
        state=str(RequestState.REQUESTED),
        changed_at=now,
    )
    repositories.action_requests.add(request)
    _record(repositories, request, by=by, why=f"{action}: {note}" if note else str(action), now=now)
    return request


def record_answer(repositories: Repositories, run_id: str, report: ActionReport, *, step: int, now: float) -> None:
    """Record a trainer's report about a request; reports about unknown requests, and repeats, are ignored."""
    request = repositories.action_requests.find(report.request_id or "")
    if request is None or request.run_id != run_id or report.outcome not in ANSWERS:
        return
    state, states = ANSWERS[report.outcome]
    run = repositories.runs.find(run_id)
    answered = replace(
        request,
        state=str(state),
        changed_at=now,
        step=step,
        phase=None if run is None else run.phase,
        detail=DRY_RUN if report.outcome == "dry_run" else report.detail,
    )
    if repositories.action_requests.advance(answered, states=states):
        why = f"{request.action}: {answered.detail}" if answered.detail else request.action
        _record(repositories, answered, by="the trainer", why=why, now=now, step=step)


def end_request(repositories: Repositories, request: StoredRequest, *, why: str, now: float) -> None:
    """End a request that the trainer has not answered; a trainer that has received it may have carried it out."""
    detail = f"{why}; {UNKNOWN_OUTCOME}" if request.state == RequestState.RECEIVED else why
    ended = replace(request, state=str(RequestState.EXPIRED), changed_at=now, detail=detail)
    if repositories.action_requests.advance(ended, states=(request.state,)):
        _record(repositories, ended, by=None, why=f"{request.action}: {detail}", now=now)


def _record(
    repositories: Repositories, request: StoredRequest, *, by: str | None, why: str, now: float, step: int | None = None
) -> None:
    """Append the state of a request to the history of its alert."""
    alert = repositories.alerts.find(request.alert_id)
    if alert is not None:
        entry = HistoryEntry(at=now, change=f"action_{request.state}", by=by, why=why, step=step)
        repositories.alert_history.add(alert, entry)
