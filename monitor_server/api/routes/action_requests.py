"""Requests to the trainer of an alert's run: create one, and list those of an alert."""

from fastapi import APIRouter

from monitor_server.action_requests.requesting import RequestableAction
from monitor_server.api.body_fields import By, Note
from monitor_server.api.dependencies import Asking, Reading, Serving, require_alert
from monitor_server.api.error_handlers import BODY_REFUSALS, CONFLICT, NOT_FOUND
from monitor_server.api.pagination import ItemList
from monitor_server.api.schemas import Body, RequestItem
from monitor_server.api.use_cases.request_action import request_trainer_action
from monitor_server.store.repositories.action_requests import StoredRequest

__all__ = ["router"]

router = APIRouter(prefix="/alerts/{alert_id}/actions")


class RequestBody(Body):
    """The action that is requested from the trainer, the author and the reason."""

    action: RequestableAction
    by: By = "somebody"
    note: Note = ""


@router.post("", responses=NOT_FOUND | CONFLICT | BODY_REFUSALS)
async def request_action(alert_id: str, body: RequestBody, collector: Serving, asking: Asking) -> RequestItem:
    """Request an action from the trainer of the alert's run, with the receipt of its next batch.

    The trainer acts after a step, once, and only if its `ActionPolicy` accepts such requests; otherwise it refuses. The
    request ends after ten minutes.
    """
    request = await request_trainer_action(collector, alert_id, body.action, by=body.by, note=body.note, author=asking)
    return _request_item(request)


@router.get("", responses=NOT_FOUND)
def requested_actions(alert_id: str, reading: Reading) -> ItemList[RequestItem]:
    """List the newest 100 actions that were requested from the trainer about this alert, the newest first."""
    require_alert(reading, alert_id)
    found = reading.action_requests.of_alert(alert_id, limit=100)
    return ItemList(items=[_request_item(request) for request in found], next=None)


def _request_item(request: StoredRequest) -> RequestItem:
    return RequestItem.model_validate({name: getattr(request, name) for name in RequestItem.model_fields})
