"""Alerts of all runs, and of one."""

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from monitor_server.api.dependencies import Cursor, Limit, Reading, Serving
from monitor_server.api.explanation import Attribution, attribution
from monitor_server.api.schemas import AcknowledgementItem, AlertItem, AlertState, Page, alert_item
from monitor_server.detection.protocol import Severity
from monitor_server.errors import UnknownAlert, UnknownRun
from monitor_server.projection.pipeline import PersonsWord
from monitor_server.store.repositories.alerts import alert_of

__all__ = ["router"]

router = APIRouter()

State = Annotated[AlertState | None, Query()]


@router.get("/alerts")
def alerts(
    *,
    reading: Reading,
    cursor: Cursor,
    state: State = None,
    severity: Severity | None = None,
    run_id: str | None = None,
    limit: Limit = 100,
) -> Page[AlertItem]:
    """Give alerts of all runs, the newest first."""
    return _page(reading, cursor, limit=limit, state=state, severity=severity, run_id=run_id)


@router.get("/alerts/{alert_id}")
def alert(alert_id: str, reading: Reading) -> AlertItem:
    """Give one alert."""
    return alert_item(_row(reading, alert_id))


@router.get("/alerts/{alert_id}/attribution")
def alert_attribution(alert_id: str, reading: Reading) -> Attribution:
    """Say what moved first, which actions, responses and tokens lead, and what helps; what is missing is named."""
    return attribution(reading, alert_of(_row(reading, alert_id)))


class AcknowledgeBody(BaseModel):
    """Who knows of the alert, and what they say."""

    model_config = ConfigDict(extra="forbid")

    by: Annotated[str, Field(min_length=1, max_length=200)] = "somebody"
    note: Annotated[str, Field(max_length=2000)] = ""


@router.post("/alerts/{alert_id}/ack")
async def acknowledge(alert_id: str, collector: Serving, body: AcknowledgeBody | None = None) -> AlertItem:
    """Note that a person knows of an alert.

    A death spiral that is only held ends with the next step; a run whose trainer is lost is given up until it is heard
    again; every other alert stays until its cause is gone.
    """
    said = body or AcknowledgeBody()
    row = await asyncio.to_thread(_alert_row, collector, alert_id)
    word = PersonsWord(run_id=row["run_id"], alert_id=alert_id, by=said.by, note=said.note)
    await asyncio.wrap_future(collector.writer.acknowledge(word))
    return alert_item(await asyncio.to_thread(_alert_row, collector, alert_id))


@router.get("/runs/{run_id}/acknowledgements")
def acknowledgements(run_id: str, reading: Reading) -> Page[AcknowledgementItem]:
    """Give what people told detection, in order; a replay that gives it after the same steps is the run."""
    if not reading.runs.exists(run_id):
        raise UnknownRun(f"no run has the id {run_id!r}; GET /api/v1/runs lists them")
    ordinals = reading.runs.attempts(run_id)
    words = [asdict(word) | {"attempt": ordinals[word.attempt][0]} for word in reading.alerts.words(run_id)]
    return Page(items=[AcknowledgementItem.model_validate(word) for word in words])


@router.get("/runs/{run_id}/alerts")
def run_alerts(
    run_id: str,
    *,
    reading: Reading,
    cursor: Cursor,
    state: State = None,
    severity: Severity | None = None,
    limit: Limit = 100,
) -> Page[AlertItem]:
    """Give a run's alerts, the newest first."""
    if not reading.runs.exists(run_id):
        raise UnknownRun(f"no run has the id {run_id!r}; GET /api/v1/runs lists them")
    return _page(reading, cursor, limit=limit, state=state, severity=severity, run_id=run_id)


def _alert_row(collector: Serving, alert_id: str) -> dict[str, Any]:
    with collector.store.read() as reading:
        return _row(reading, alert_id)


def _row(reading: Reading, alert_id: str) -> dict[str, Any]:
    row = reading.alerts.view(alert_id)
    if row is None:
        raise UnknownAlert(f"no alert has the id {alert_id!r}; GET /api/v1/alerts lists them")
    return row


def _page(
    reading: Reading,
    cursor: int | None,
    *,
    limit: int,
    state: str | None,
    severity: str | None,
    run_id: str | None,
) -> Page[AlertItem]:
    rows = reading.alerts.page(limit=limit + 1, before=cursor, run_id=run_id, state=state, severity=severity)
    following = str(rows[limit - 1]["number"]) if len(rows) > limit else None
    return Page(items=[alert_item(row) for row in rows[:limit]], next=following)
