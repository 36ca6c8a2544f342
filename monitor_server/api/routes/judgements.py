"""The judgements of alarms: people state after a run whether each was right."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BeforeValidator, ConfigDict, Field

from monitor_server.access.audit.entries import detail_of_alert, record_change
from monitor_server.api.body_fields import By, Note
from monitor_server.api.dependencies import Asking, Reading, Serving, require_run
from monitor_server.api.error_handlers import BODY_REFUSALS, NOT_FOUND
from monitor_server.api.pagination import ItemList
from monitor_server.api.routes.alert_history import find_with_room
from monitor_server.api.schemas import Body, JudgementItem
from monitor_server.errors import InvalidField
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alert_history import JUDGED_RIGHT, JUDGED_WRONG, HistoryEntry
from monitor_server.store.repositories.alerts import Alert

__all__ = ["router"]

router = APIRouter()

LARGEST_STEP = 1 << 53


def _whole(value: object) -> object:
    """Return a JSON number without a fraction as an integer: 12.0 becomes 12, and true stays as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class JudgementBody(Body):
    """Whether an alarm was right; for a right one, at which recorded step the run failed if that is known."""

    model_config = ConfigDict(strict=True)

    is_right: bool
    failed_at: Annotated[int, Field(ge=0, le=LARGEST_STEP), BeforeValidator(_whole)] | None = None
    by: By = "somebody"
    note: Note = ""


@router.post("/alerts/{alert_id}/judgement", responses=NOT_FOUND | BODY_REFUSALS)
async def judge(alert_id: str, body: JudgementBody, collector: Serving, asking: Asking) -> JudgementItem:
    """Judge whether an alarm was right. The newest judgement of an alert is used; no alert or detector changes."""
    if body.failed_at is not None and not body.is_right:
        raise InvalidField(
            f"body.failed_at: must be left out of a judgement that an alarm was wrong, got {body.failed_at}; give the "
            "step with an alarm of the run that was right"
        )
    now, by = collector.clock(), asking.signature(body.by)
    change = JUDGED_RIGHT if body.is_right else JUDGED_WRONG
    entry = HistoryEntry(at=now, change=change, step=body.failed_at, by=by, why=body.note)

    def write(repositories: Repositories) -> Alert:
        found = find_with_room(repositories, alert_id)
        if body.failed_at is not None:
            _require_recorded(repositories, found.run_id, body.failed_at)
        before = repositories.alert_history.newest_judgement(found)
        repositories.alert_history.add(found, entry)
        project = repositories.runs.project(found.run_id)
        after = _words(change, body.failed_at)
        words = after if before is None else f"{_words(before['change'], before['step'])} -> {after}"
        detail = detail_of_alert(found.run_id, found.kind, f"{words}: {body.note}" if body.note else words)
        record_change(
            repositories, asking, "alert.judge", alert_id, now=now, project=project, by=body.by, detail=detail
        )
        return found

    found = await collector.write(alert_id, write)
    return _item({"alert_id": alert_id, "kind": found.kind} | asdict(entry))


@router.get("/runs/{run_id}/judgements", responses=NOT_FOUND)
def judgements(run_id: str, reading: Reading) -> ItemList[JudgementItem]:
    """List the newest judgement of each alert of a run that was judged."""
    require_run(reading, run_id)
    return ItemList(items=[_item(row) for row in reading.alert_history.judgements(run_id)], next=None)


def _require_recorded(repositories: Repositories, run_id: str, step: int) -> None:
    """Refuse a step beyond the last one of every attempt: a run that went back may have failed before it did."""
    recorded = [span.last_step for span in repositories.attempts.spans(run_id) if span.last_step is not None]
    if recorded and step > max(recorded):
        raise InvalidField(
            f"body.failed_at: must be at most the last recorded step of the run, {max(recorded)}, got {step}; if the "
            "run failed in a step that it did not record, give the last recorded one"
        )


def _words(change: str, failed_at: int | None) -> str:
    judged = "right" if change == JUDGED_RIGHT else "wrong"
    return judged if failed_at is None else f"{judged}, failed at step {failed_at}"


def _item(row: Mapping[str, Any]) -> JudgementItem:
    return JudgementItem(
        alert_id=row["alert_id"],
        kind=row["kind"],
        is_right=row["change"] == JUDGED_RIGHT,
        failed_at=row["step"],
        at=row["at"],
        by=row["by"],
        note=row["why"],
    )
