"""The history of an alert: its changes, and the comments of people."""

from dataclasses import asdict

from fastapi import APIRouter

from monitor_server.access.audit.entries import detail_of_alert, record_change
from monitor_server.alerts.changes.stages import Change
from monitor_server.api.body_fields import By, Comment
from monitor_server.api.dependencies import Asking, Reading, Serving, require_alert
from monitor_server.api.error_handlers import BODY_REFUSALS, NOT_FOUND
from monitor_server.api.pagination import Cursor, ItemList, PageLimit, item_list
from monitor_server.api.schemas import Body, HistoryItem, history_item
from monitor_server.errors import InvalidField, UnknownAlert
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alert_history import HistoryEntry
from monitor_server.store.repositories.alerts import Alert

__all__ = ["find_with_room", "router"]

router = APIRouter(prefix="/alerts/{alert_id}")

# For a run and a kind; each comment has up to 2,000 characters.
MAX_COMMENTS = 1_000


@router.get("/history", responses=NOT_FOUND)
def history(alert_id: str, reading: Reading, cursor: Cursor, limit: PageLimit = 100) -> ItemList[HistoryItem]:
    """List the changes of the alerts of this alert's run and kind, and the comments on them, the newest first."""
    row = require_alert(reading, alert_id)
    return item_list(
        lambda most: reading.alert_history.page(row["run_id"], row["kind"], limit=most, before=cursor),
        limit=limit,
        item=history_item,
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
        raise InvalidField(f"the alerts of one run and kind can have at most {MAX_COMMENTS} comments and judgements")
    return found


class CommentBody(Body):
    """The author of a comment, and its text."""

    by: By = "somebody"
    text: Comment


@router.post("/comments", responses=NOT_FOUND | BODY_REFUSALS)
async def comment(alert_id: str, body: CommentBody, collector: Serving, asking: Asking) -> HistoryItem:
    """Add a comment to the history of an alert."""
    now, by = collector.clock(), asking.signature(body.by)

    def write(repositories: Repositories) -> tuple[Alert, HistoryEntry]:
        found = find_with_room(repositories, alert_id)
        step = repositories.runs.last_step(found.run_id)
        entry = HistoryEntry(at=now, change=Change.COMMENTED, by=by, why=body.text, step=step)
        repositories.alert_history.add(found, entry)
        project = repositories.runs.project(found.run_id)
        detail = detail_of_alert(found.run_id, found.kind, body.text)
        record_change(
            repositories, asking, "alert.comment", alert_id, now=now, project=project, by=body.by, detail=detail
        )
        return found, entry

    found, entry = await collector.write(alert_id, write)
    return history_item({"alert_id": alert_id, "stage": found.stage} | asdict(entry))
