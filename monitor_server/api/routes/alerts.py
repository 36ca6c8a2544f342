"""Alerts of all runs and of one run: lists, attribution, acknowledgement, comments and history."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from monitor_server.access.audit.changes import record_change
from monitor_server.access.callers import Caller
from monitor_server.alerts.acknowledgement import AlertAcknowledgement
from monitor_server.alerts.transitions import Change, Stage
from monitor_server.api.attribution import Attribution, attribution
from monitor_server.api.collector.changes.acknowledgements import acknowledge_alert
from monitor_server.api.collector.changes.action_requests import request_trainer_action
from monitor_server.api.dependencies import Asking, Collector, Reading, Serving, require_run
from monitor_server.api.error_handlers import BODY_REFUSALS, CONFLICT, NOT_FOUND
from monitor_server.api.incident.content import read_incident
from monitor_server.api.incident.page import page
from monitor_server.api.pagination import Cursor, ItemList, Limit, item_list
from monitor_server.api.schemas import AcknowledgementItem, AlertItem, AlertState, HistoryItem, RequestItem, alert_item
from monitor_server.detection.protocol import Severity
from monitor_server.errors import InvalidField, UnknownAlert
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.action_requests import StoredRequest
from monitor_server.store.repositories.alert_history import HistoryEntry
from monitor_server.store.repositories.alerts import Alert, alert_of
from monitor_server.trainer_requests.requesting import RequestableAction

__all__ = ["STORABLE", "Author", "find_with_room", "router"]

router = APIRouter()

# Of a run and a kind; each has up to 2,000 characters.
MAX_COMMENTS = 1_000
# PostgreSQL stores no NUL.
STORABLE = r"^[^\x00]*$"

_PAGE = {"description": "the report", "content": {"text/html": {"schema": {"type": "string"}}}}

State = Annotated[AlertState | None, Query()]
Author = Annotated[str, Field(min_length=1, max_length=200, pattern=STORABLE)]


@router.get("/alerts")
def alerts(
    *,
    reading: Reading,
    asking: Asking,
    cursor: Cursor,
    state: State = None,
    stage: Stage | None = None,
    severity: Severity | None = None,
    run_id: str | None = None,
    limit: Limit = 100,
) -> ItemList[AlertItem]:
    """List alerts of all runs that the key reaches, the newest first."""
    return _alerts(reading, asking, cursor, limit=limit, state=state, stage=stage, severity=severity, run_id=run_id)


@router.get("/alerts/{alert_id}", responses=NOT_FOUND)
def alert(alert_id: str, reading: Reading) -> AlertItem:
    """Return one alert."""
    return alert_item(_row(reading, alert_id))


@router.get("/alerts/{alert_id}/attribution", responses=NOT_FOUND)
def alert_attribution(alert_id: str, reading: Reading) -> Attribution:
    """Return what moved first, which actions, responses and tokens lead, known remedies, and what is missing."""
    return attribution(reading, alert_of(_row(reading, alert_id)))


# Not `HTMLResponse`: FastAPI would describe errors as HTML as well.
@router.get("/alerts/{alert_id}/incident", response_class=Response, responses={200: _PAGE, **NOT_FOUND})
def alert_incident(
    alert_id: str,
    collector: Serving,
    reading: Reading,
    *,
    texts: Annotated[bool, Query(description="Keep the texts of sampled responses")] = True,
) -> HTMLResponse:
    """Download the incident report: alert, run, phases, signals and attribution in one HTML file, data included."""
    incident = read_incident(
        reading, alert_id, now=collector.clock(), deadlines=collector.settings.deadlines, texts=texts
    )
    name = f"incident-{incident.alert.kind}-{incident.alert.id}.html"
    return HTMLResponse(page(incident), headers={"Content-Disposition": f'attachment; filename="{name}"'})


class AcknowledgeBody(BaseModel):
    """Who acknowledges the alert, with a note."""

    model_config = ConfigDict(extra="forbid")

    by: Author = "somebody"
    note: Annotated[str, Field(max_length=2000, pattern=STORABLE)] = ""


@router.post("/alerts/{alert_id}/ack", responses=NOT_FOUND | BODY_REFUSALS)
async def acknowledge(
    alert_id: str, collector: Serving, asking: Asking, body: AcknowledgeBody | None = None
) -> AlertItem:
    """Acknowledge an alert: a person knows of it.

    A death spiral whose conditions no longer hold resolves at the next step. A run whose trainer is lost is stopped
    until its trainer sends again. Every other alert stays open until its cause is gone.
    """
    given = body or AcknowledgeBody()
    row = await asyncio.to_thread(_alert_row, collector, alert_id)
    await acknowledge_alert(
        collector,
        AlertAcknowledgement(run_id=row["run_id"], alert_id=alert_id, by=given.by, note=given.note),
        author=asking,
    )
    return alert_item(await asyncio.to_thread(_alert_row, collector, alert_id))


@router.get("/alerts/{alert_id}/history", responses=NOT_FOUND)
def history(alert_id: str, reading: Reading, cursor: Cursor, limit: Limit = 100) -> ItemList[HistoryItem]:
    """List what has happened to the alerts of this alert's run and kind, and what was said, the newest first."""
    row = _row(reading, alert_id)
    return item_list(
        lambda most: reading.alert_history.page(row["run_id"], row["kind"], limit=most, before=cursor),
        limit=limit,
        item=_history_item,
        cursor=lambda entry: entry["number"],
    )


def find_with_room(repositories: Repositories, alert_id: str) -> Alert:
    """Return an alert whose history has room for a comment or a judgement.

    Raises:
        UnknownAlert: If there is no such alert.
        InvalidField: If the history is full.
    """
    found = repositories.alerts.find(alert_id)
    if found is None:
        raise UnknownAlert.by_id(alert_id)
    if repositories.alert_history.comments(found) >= MAX_COMMENTS:
        raise InvalidField(f"the alerts of a run and a kind have at most {MAX_COMMENTS} comments and judgements")
    return found


class CommentBody(BaseModel):
    """Who comments, and what they say."""

    model_config = ConfigDict(extra="forbid")

    by: Author = "somebody"
    text: Annotated[str, Field(min_length=1, max_length=2000, pattern=STORABLE)]


@router.post("/alerts/{alert_id}/comments", responses=NOT_FOUND | BODY_REFUSALS)
async def comment(alert_id: str, body: CommentBody, collector: Serving, asking: Asking) -> HistoryItem:
    """Add a comment to the history of an alert."""
    now, by = collector.clock(), asking.signature(body.by)

    def write(repositories: Repositories) -> tuple[Alert, HistoryEntry]:
        found = find_with_room(repositories, alert_id)
        step = repositories.runs.last_step(found.run_id)
        entry = HistoryEntry(at=now, change=Change.COMMENTED, by=by, why=body.text, step=step)
        repositories.alert_history.add(found, entry)
        project = repositories.runs.project(found.run_id)
        record_change(repositories, asking, "alert.comment", alert_id, now=now, project=project, by=body.by)
        return found, entry

    found, entry = await collector.write(alert_id, write)
    return _history_item({"alert_id": alert_id, "stage": found.stage} | asdict(entry))


class RequestBody(BaseModel):
    """What the trainer is asked for, by whom and why."""

    model_config = ConfigDict(extra="forbid")

    action: RequestableAction
    by: Author = "somebody"
    note: Annotated[str, Field(max_length=2000, pattern=STORABLE)] = ""


@router.post("/alerts/{alert_id}/actions", responses=NOT_FOUND | CONFLICT | BODY_REFUSALS)
async def request_action(alert_id: str, body: RequestBody, collector: Serving, asking: Asking) -> RequestItem:
    """Ask the trainer of the alert's run for an action, with the receipt of its next batch.

    The trainer acts after a step, once, and only if its `ActionPolicy` takes such requests; else it refuses. The
    request ends after ten minutes.
    """
    request = await request_trainer_action(collector, alert_id, body.action, by=body.by, note=body.note, author=asking)
    return _request_item(request)


@router.get("/alerts/{alert_id}/actions", responses=NOT_FOUND)
def requested_actions(alert_id: str, reading: Reading) -> ItemList[RequestItem]:
    """List the newest 100 actions that the trainer was asked for about this alert, the newest first."""
    _row(reading, alert_id)
    found = reading.action_requests.of_alert(alert_id, limit=100)
    return ItemList(items=[_request_item(request) for request in found], next=None)


def _request_item(request: StoredRequest) -> RequestItem:
    return RequestItem.model_validate({name: getattr(request, name) for name in RequestItem.model_fields})


@router.get("/runs/{run_id}/acknowledgements", responses=NOT_FOUND)
def acknowledgements(run_id: str, reading: Reading) -> ItemList[AcknowledgementItem]:
    """List acknowledgements in order, each with the step that detection had seen: a replay needs both."""
    require_run(reading, run_id)
    ordinals = reading.attempts.ordinals(run_id)
    given = [
        asdict(stored) | {"attempt": ordinals[stored.attempt or 0][0]}
        for stored in reading.alerts.acknowledgements(run_id)
    ]
    return ItemList(items=[AcknowledgementItem.model_validate(item) for item in given])


@router.get("/runs/{run_id}/alerts", responses=NOT_FOUND)
def run_alerts(
    run_id: str,
    *,
    reading: Reading,
    asking: Asking,
    cursor: Cursor,
    state: State = None,
    stage: Stage | None = None,
    severity: Severity | None = None,
    limit: Limit = 100,
) -> ItemList[AlertItem]:
    """List the alerts of one run, the newest first."""
    require_run(reading, run_id)
    return _alerts(reading, asking, cursor, limit=limit, state=state, stage=stage, severity=severity, run_id=run_id)


def _history_item(row: Mapping[str, Any]) -> HistoryItem:
    return HistoryItem.model_validate({name: row[name] for name in HistoryItem.model_fields})


def _alert_row(collector: Collector, alert_id: str) -> dict[str, Any]:
    with collector.store.read() as reading:
        return _row(reading, alert_id)


def _row(reading: Reading, alert_id: str) -> dict[str, Any]:
    row = reading.alerts.view(alert_id)
    if row is None:
        raise UnknownAlert.by_id(alert_id)
    return row


def _alerts(
    reading: Reading,
    caller: Caller,
    cursor: int | None,
    *,
    limit: int,
    state: str | None,
    stage: str | None,
    severity: str | None,
    run_id: str | None,
) -> ItemList[AlertItem]:
    return item_list(
        lambda most: reading.alerts.page(
            limit=most,
            before=cursor,
            run_id=run_id,
            state=state,
            stage=stage,
            severity=severity,
            project=caller.project,
        ),
        limit=limit,
        item=alert_item,
        cursor=lambda row: row["number"],
    )
