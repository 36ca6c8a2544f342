"""The marks of a run at its steps: attempts, rewinds, actions of the trainer, acknowledgements and comments."""

from fastapi import APIRouter

from monitor_server.api.dependencies import Reading, require_run
from monitor_server.api.error_handlers import NOT_FOUND
from monitor_server.api.pagination import ItemList
from monitor_server.api.schemas import MarkItem
from monitor_server.api.schemas.marks import acknowledgement_mark, action_mark, attempt_marks, comment_mark

__all__ = ["router"]

router = APIRouter(prefix="/runs")

MAX_MARKS = 200  # of each kind; more of them hide a chart


@router.get("/{run_id}/marks", responses=NOT_FOUND)
def marks(run_id: str, reading: Reading) -> ItemList[MarkItem]:
    """List the events of a run at its steps, in the order of steps: the newest 200 of each kind.

    An acknowledgement and a comment are placed at the newest step that the run had when they were written.
    """
    require_run(reading, run_id)
    acknowledged = [given for given in reading.acknowledgements.of_run(run_id) if given.step is not None]
    found = [
        *list(attempt_marks(reading.attempts.spans(run_id)))[-MAX_MARKS:],
        *map(action_mark, reading.actions.page(run_id, limit=MAX_MARKS)),
        *map(acknowledgement_mark, acknowledged[-MAX_MARKS:]),
        *map(comment_mark, reading.alert_history.comments_at_steps(run_id, limit=MAX_MARKS)),
    ]
    return ItemList(items=sorted(found, key=lambda mark: (mark.step, mark.time)))
