"""Alerts of all runs, and of one."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from monitor_server.answers import AlertItem, AlertState, Page, alert_item
from monitor_server.detection.protocol import Severity
from monitor_server.errors import UnknownAlert, UnknownRun
from monitor_server.explanation import Attribution, attribution
from monitor_server.routes.dependencies import Cursor, Limit, Reading
from monitor_server.store.alerts import alert_of

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
