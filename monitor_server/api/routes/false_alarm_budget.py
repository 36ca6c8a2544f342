"""The ledger of a run: its budget of false pages, and the part of it that is spent."""

import msgspec
from fastapi import APIRouter

from monitor_server.api.dependencies import Reading, require_run
from monitor_server.api.error_handlers import NOT_FOUND
from monitor_server.api.schemas.false_alarm_budget import WarrantyItem
from monitor_server.api.schemas.saved_detection import decode_part
from monitor_server.detection.false_alarm_budget import Warranty

__all__ = ["router"]

router = APIRouter(prefix="/runs")


class _SavedBudget(msgspec.Struct, frozen=True):
    seen: int
    largest: float
    pages: int
    held_back: int
    warranty: Warranty


class _SavedBudgetState(msgspec.Struct, frozen=True):
    """The part of a saved engine state with the ledger; without a stated budget there is none."""

    page_budget: _SavedBudget | None = None


_DECODER = msgspec.msgpack.Decoder(_SavedBudgetState)


@router.get("/{run_id}/warranty", responses=NOT_FOUND)
def warranty(run_id: str, reading: Reading) -> WarrantyItem | None:
    """Return the budget of false pages of this run, and the spent part, after the newest processed step.

    The answer is null if no budget is stated, before the first step, and if the saved state of detection is damaged.
    """
    require_run(reading, run_id)
    saved = reading.detector_states.load(run_id)
    part = None if saved is None else decode_part(_DECODER, saved.state)
    budget = None if part is None else part.page_budget
    if budget is None:
        return None
    stated = budget.warranty
    return WarrantyItem(
        is_in_force=stated.is_in_force,
        promise=stated.describe(),
        steps_per_page=stated.steps_per_page,
        healthy_runs=stated.runs,
        healthy_steps=stated.steps,
        longest=stated.longest,
        steps=budget.seen,
        is_longer=budget.seen > stated.longest,
        strength=budget.largest,
        pages_allowed=stated.allowance(budget.largest),
        pages_opened=budget.pages,
        steps_held_back=budget.held_back,
    )
