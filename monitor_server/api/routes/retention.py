"""The limits of retention: list those in force, count what other limits would remove, and save limits."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import AfterValidator, BeforeValidator, Field, FiniteFloat

from monitor_server.api.body_fields import By
from monitor_server.api.dependencies import Asking, DryRunReading, Reading, Serving
from monitor_server.api.error_handlers import BODY_REFUSALS, CONFLICT
from monitor_server.api.pagination import ItemList
from monitor_server.api.schemas import Body, Schema, Time
from monitor_server.retention.limits import FIXED, Limit, list_limits, refuse_fixed, save_limits
from monitor_server.retention.preview import preview_removals
from monitor_server.settings import require_days
from monitor_server.store.repositories import Repositories

__all__ = ["router"]

router = APIRouter(prefix="/retention")


def _number(given: Any) -> Any:  # noqa: ANN401 - any value that a client sends
    if isinstance(given, bool):
        raise ValueError("must be a number")  # noqa: TRY004 - validators may raise this
    return given


Days = Annotated[
    float,
    Field(le=36_500, json_schema_extra={"exclusiveMinimum": 0}),
    BeforeValidator(_number),
    AfterValidator(require_days),
]
Steps = Annotated[int, Field(ge=1, le=2**53), BeforeValidator(_number)]
ThinnedSteps = Annotated[int, Field(ge=2, le=2**53), BeforeValidator(_number)]


class LimitItem(Schema):
    """A limit: null keeps the data for good. ``fixed`` is the reason for which it cannot be saved; empty if it can."""

    name: str
    value: FiniteFloat | None
    source: Literal["environment", "saved", "default"]
    fixed: str
    saved_at: Time | None
    saved_by: str | None


class LimitValues(Body):
    """Limits by name, in days or in steps; null restores the default. A limit that is left out stays as it is."""

    record_steps: Steps | None = None
    record_days: Days | None = None
    response_days: Days | None = None
    step_days: Days | None = None
    thinned_steps: ThinnedSteps | None = None
    run_days: Days | None = None


class PreviewBody(Body):
    """Limits to try."""

    limits: LimitValues


class RetentionBody(Body):
    """Limits to save, and the values of these limits that were in force when the author decided."""

    limits: LimitValues
    seen: LimitValues
    by: By = "somebody"


class RemovalItem(Schema):
    """The removal by a limit: a number of rows and of runs; a lower bound if ``is_complete`` is false."""

    name: str
    removes: Literal["records", "responses", "steps", "runs"]
    runs: int
    rows: int
    is_complete: bool


@router.get("")
def limits(collector: Serving, reading: Reading) -> ItemList[LimitItem]:
    """List how long data is kept, with the origin of each limit."""
    return _items(collector.settings, reading)


@router.post("/preview", responses=BODY_REFUSALS | CONFLICT)
def preview(body: PreviewBody, collector: Serving, reading: DryRunReading) -> ItemList[RemovalItem]:
    """Count the rows that limits would remove if they were saved now, for at most ten seconds.

    Nothing is changed; a collector runs one count at a time.
    """
    wanted = body.limits.model_dump(exclude_unset=True)
    refuse_fixed(collector.settings, wanted)
    found = preview_removals(reading, collector.settings, wanted, now=collector.clock())
    return ItemList(items=[RemovalItem.model_validate(each, from_attributes=True) for each in found], next=None)


@router.put("", responses=BODY_REFUSALS | CONFLICT)
async def save(body: RetentionBody, collector: Serving, asking: Asking) -> ItemList[LimitItem]:
    """Save limits; the next search of retention uses them, on every collector."""
    wanted, seen = body.limits.model_dump(exclude_unset=True), body.seen.model_dump(exclude_unset=True)
    now = collector.clock()

    def write(repositories: Repositories) -> ItemList[LimitItem]:
        save_limits(repositories, collector.settings, wanted, seen=seen, author=asking, by=body.by, now=now)
        return _items(collector.settings, repositories)

    answer = await collector.write("retention", write)
    if collector.retention is not None:
        collector.retention.notify()
    return answer


def _items(settings: Any, repositories: Repositories) -> ItemList[LimitItem]:  # noqa: ANN401 - of the collector
    return ItemList(items=[_item(limit) for limit in list_limits(repositories, settings)], next=None)


def _item(limit: Limit) -> LimitItem:
    reason, fixed = FIXED.get(limit.name, ""), ""
    if limit.source == "environment" or reason:
        fixed = f"RLVITALS_{limit.name.upper()}, in the environment" + (f": {reason}" if reason else "")
    return LimitItem(
        name=limit.name,
        value=limit.value,
        source=limit.source,
        fixed=fixed,
        saved_at=None if limit.saved is None else limit.saved.saved_at,
        saved_by=None if limit.saved is None else limit.saved.saved_by,
    )
