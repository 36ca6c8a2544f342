"""Alerts of all runs and of one run: lists, attribution, the incident report and acknowledgements."""

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, Response

from monitor_server.access.callers import Caller
from monitor_server.alerts.acknowledgement import AlertAcknowledgement
from monitor_server.alerts.changes.stages import Stage
from monitor_server.api.attribution import Attribution, attribution
from monitor_server.api.body_fields import By, Note
from monitor_server.api.dependencies import Asking, Collector, Reading, Serving, require_alert, require_run
from monitor_server.api.error_handlers import BODY_REFUSALS, NOT_FOUND
from monitor_server.api.incident_report.content import read_incident
from monitor_server.api.incident_report.page import page
from monitor_server.api.pagination import Cursor, ItemList, PageLimit, item_list
from monitor_server.api.schemas import AcknowledgementItem, AlertItem, AlertState, Body, alert_item
from monitor_server.api.use_cases.acknowledge_alert import acknowledge_alert
from monitor_server.detection.protocol import Severity
from monitor_server.store.repositories.alerts import alert_of

__all__ = ["router"]

router = APIRouter()

_PAGE = {"description": "the report", "content": {"text/html": {"schema": {"type": "string"}}}}

State = Annotated[AlertState | None, Query()]


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
    limit: PageLimit = 100,
) -> ItemList[AlertItem]:
    """List the alerts of all runs that the key may access, the newest first."""
    return _alerts(reading, asking, cursor, limit=limit, state=state, stage=stage, severity=severity, run_id=run_id)


@router.get("/alerts/{alert_id}", responses=NOT_FOUND)
def alert(alert_id: str, reading: Reading) -> AlertItem:
    """Return one alert."""
    return alert_item(require_alert(reading, alert_id))


@router.get("/alerts/{alert_id}/attribution", responses=NOT_FOUND)
def alert_attribution(alert_id: str, reading: Reading) -> Attribution:
    """Return what moved first, which actions, responses and tokens lead, known remedies, and the missing data."""
    return attribution(reading, alert_of(require_alert(reading, alert_id)))


# `HTMLResponse` is not used here, because FastAPI would then describe errors as HTML as well.
@router.get("/alerts/{alert_id}/incident", response_class=Response, responses={200: _PAGE, **NOT_FOUND})
async def alert_incident(
    alert_id: str,
    collector: Serving,
    asking: Asking,
    *,
    texts: Annotated[bool, Query(description="Keep the texts of sampled responses")] = True,
) -> HTMLResponse:
    """Download the incident report: alert, run, phases, signals and attribution in one HTML file, data included."""

    def make() -> HTMLResponse:
        with collector.store.read() as reading:
            incident = read_incident(
                reading,
                alert_id,
                now=collector.clock(),
                deadlines=collector.settings.deadlines,
                texts=texts,
                max_signals=collector.settings.max_signals,
            )
        name = f"incident-{incident.alert.kind}-{incident.alert.id}.html"
        return HTMLResponse(page(incident), headers={"Content-Disposition": f'attachment; filename="{name}"'})

    with collector.incident_reports.admit(asking.counted_as):
        return await collector.incident_reports.take_turn(make)


class AcknowledgeBody(Body):
    """The person who acknowledges the alert, with a note."""

    by: By = "somebody"
    note: Note = ""


@router.post("/alerts/{alert_id}/ack", responses=NOT_FOUND | BODY_REFUSALS)
async def acknowledge(
    alert_id: str, collector: Serving, asking: Asking, body: AcknowledgeBody | None = None
) -> AlertItem:
    """Acknowledge an alert: a person has noticed it.

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


@router.get("/runs/{run_id}/acknowledgements", responses=NOT_FOUND)
def acknowledgements(run_id: str, reading: Reading) -> ItemList[AcknowledgementItem]:
    """List acknowledgements in order, each with the newest step of detection at that time: a replay needs both."""
    require_run(reading, run_id)
    ordinals = reading.attempts.ordinals(run_id)
    given = [
        asdict(stored) | {"attempt": ordinals[stored.attempt or 0][0]}
        for stored in reading.acknowledgements.of_run(run_id)
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
    limit: PageLimit = 100,
) -> ItemList[AlertItem]:
    """List the alerts of one run, the newest first."""
    require_run(reading, run_id)
    return _alerts(reading, asking, cursor, limit=limit, state=state, stage=stage, severity=severity, run_id=run_id)


def _alert_row(collector: Collector, alert_id: str) -> dict[str, Any]:
    with collector.store.read() as reading:
        return require_alert(reading, alert_id)


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
