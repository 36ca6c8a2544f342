"""`GET /api/v1/audit`: the changes and their authors."""

from fastapi import APIRouter

from monitor_server.api.dependencies import Asking, Reading
from monitor_server.api.pagination import Cursor, ItemList, PageLimit, item_list
from monitor_server.api.schemas import Schema, Time

__all__ = ["router"]

router = APIRouter()


class AuditItem(Schema):
    """One change; ``at`` is in seconds since the epoch, ``project`` is null if there is more than one."""

    at: Time
    by: str
    key_id: str | None
    project: str | None
    action: str
    target: str
    detail: str


@router.get("/audit")
def audit(*, reading: Reading, asking: Asking, cursor: Cursor, limit: PageLimit = 100) -> ItemList[AuditItem]:
    """List changes that were made, the newest first: acknowledgements, resets, deletions, keys and retention."""
    return item_list(
        lambda most: reading.audit_log.page(limit=most, before=cursor, project=asking.project),
        limit=limit,
        item=lambda row: AuditItem.model_validate({name: row[name] for name in AuditItem.model_fields}),
        cursor=lambda row: row["number"],
    )
