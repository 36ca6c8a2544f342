"""One run, and its series, steps, responses, phases and actions."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from monitor_server.api.attribution import ResponsePairs
from monitor_server.api.attribution import response_pairs as find_pairs
from monitor_server.api.dependencies import Asking, Collector, Reading, Serving, require_run
from monitor_server.api.error_handlers import BODY_REFUSALS, NOT_FOUND
from monitor_server.api.pagination import Cursor, ItemList, LargeCursor, PageLimit, StepNumber, item_list
from monitor_server.api.routes.series_parts import PATTERN, SeriesCursor, read_part, render_part
from monitor_server.api.schemas import (
    ActionItem,
    AttemptItem,
    Body,
    PhaseItem,
    ResponseItem,
    RunDetail,
    SeriesItem,
    StepItem,
    action_item,
    phase_items,
    response_item,
    response_numbers,
    run_detail,
)
from monitor_server.api.use_cases.reset_and_delete_runs import reset_stored_run
from monitor_server.errors import UnknownRun
from monitor_server.store.repositories.responses import StoredResponse
from monitor_server.store.repositories.series.columns import Statistic
from monitor_server.store.repositories.steps import Step
from trainer_hooks import wire
from trainer_hooks.wire import ResponseKind

__all__ = ["read_detail", "router"]

router = APIRouter(prefix="/runs")


@router.get("/{run_id}", responses=NOT_FOUND)
def run(run_id: str, collector: Serving, reading: Reading) -> RunDetail:
    """Return one run with its configuration and the names of its signals."""
    return _detail(reading, collector, run_id)


class ResetBody(Body):
    """The parts to reset; a quarantined run is tried again in any case."""

    attempt: Annotated[
        int | None,
        Field(
            ge=1,
            le=2**31 - 1,
            strict=True,
            description="The attempt that becomes the newest; later ones are removed with their steps",
        ),
    ] = None
    world_size: Annotated[
        int | None, Field(ge=1, le=2**31 - 1, strict=True, description="Number of ranks of the newest attempt")
    ] = None


@router.post("/{run_id}/reset", responses=NOT_FOUND | BODY_REFUSALS)
async def reset(run_id: str, collector: Serving, asking: Asking, body: ResetBody | None = None) -> RunDetail:
    """Undo the effects of a stray message on a run: a later attempt, or a wrong number of ranks.

    `attempt` counts from 1, as everywhere in this API. A quarantined run is tried again.
    """
    given = body or ResetBody()
    await reset_stored_run(collector, run_id, author=asking, attempt=given.attempt, world_size=given.world_size)
    return await asyncio.to_thread(read_detail, collector, run_id)


@router.get("/{run_id}/attempts", responses=NOT_FOUND)
def attempts(run_id: str, reading: Reading) -> ItemList[AttemptItem]:
    """List the attempts of a run, the oldest first."""
    require_run(reading, run_id)
    return ItemList(
        items=[
            AttemptItem(attempt=ordinal, number=number, world_size=world_size)
            for number, (ordinal, world_size) in reading.attempts.ordinals(run_id).items()
        ]
    )


@router.get("/{run_id}/series", responses=NOT_FOUND, response_model=ItemList[SeriesItem])
def series(
    run_id: str,
    *,
    reading: Reading,
    signals: Annotated[list[str] | None, Query(description="The signals to return; by default, all of the run")] = None,
    from_step: StepNumber | None = None,
    to_step: StepNumber | None = None,
    max_points: Annotated[int, Query(ge=10, le=1_000_000, description="Largest number of points of one signal")] = 1500,
    cursor: Annotated[str | None, Query(pattern=PATTERN, description="`next` of the previous answer")] = None,
    times: Annotated[bool, Query(description="Also return the time at which each step was recorded")] = False,
    statistic: Annotated[
        Statistic,
        Query(
            description="What is returned of each section of a signal with too many points: the steps with its least "
            "and its largest number, or the mean of its finite values at its last step, with their number"
        ),
    ] = "extremes",
) -> Response:
    """Return signals over steps; a signal with too many points is divided into sections.

    An answer contains at most 50,000 points. If `next` is set, repeat the request with it as `cursor`: the next answer
    continues where this one ended, possibly in the middle of a signal.
    """
    require_run(reading, run_id)
    names = reading.steps.signals(run_id) if signals is None else list(dict.fromkeys(signals))
    begin = SeriesCursor.parse(cursor)
    part = read_part(
        lambda some: reading.series.read(
            run_id,
            some,
            from_step=from_step,
            to_step=to_step,
            max_points=max_points,
            statistic=statistic,
            with_times=times,
        ),
        names,
        begin=begin,
        max_points=max_points,
        statistic=statistic,
    )
    return Response(render_part(part), media_type=wire.JSON)


@router.get("/{run_id}/steps", responses=NOT_FOUND)
def steps(
    run_id: str,
    reading: Reading,
    cursor: LargeCursor,
    from_step: StepNumber = 0,
    limit: PageLimit = 100,
) -> ItemList[StepItem]:
    """List steps with all their signals, in ascending order."""
    require_run(reading, run_id)
    ordinals = reading.attempts.ordinals(run_id)

    def item(step: Step) -> StepItem:
        return StepItem(
            step=step.step,
            attempt=ordinals[step.attempt][0],
            time=step.time,
            policy_version=step.policy_version,
            signals=dict(step.signals),
            damaged=step.is_damaged,
        )

    first = max(from_step, cursor or 0)
    return item_list(
        lambda most: reading.steps.page(run_id, from_step=first, limit=most),
        limit=limit,
        item=item,
        cursor=lambda step: step.step + 1,
        weight=lambda step: len(step.signals),
    )


@router.get("/{run_id}/responses", responses=NOT_FOUND)
def responses(
    run_id: str,
    *,
    reading: Reading,
    cursor: LargeCursor,
    from_step: StepNumber | None = None,
    to_step: StepNumber | None = None,
    kind: ResponseKind | None = None,
    correct: bool | None = None,
    limit: Annotated[int, Query(ge=1, le=200, description="Largest number of items in one answer")] = 20,
) -> ItemList[ResponseItem]:
    """List sampled responses with their tokens, the newest first."""
    require_run(reading, run_id)
    ordinals = reading.attempts.ordinals(run_id)

    def item(stored: StoredResponse) -> ResponseItem:
        return response_item(run_id, stored, attempt=ordinals[stored.attempt][0])

    return item_list(
        lambda most: reading.responses.page(
            run_id, limit=most, before=cursor, from_step=from_step, to_step=to_step, kind=kind, correct=correct
        ),
        limit=limit,
        item=item,
        cursor=lambda stored: stored.number,
        weight=response_numbers,
    )


@router.get("/{run_id}/response-pairs", responses=NOT_FOUND)
def response_pairs(
    run_id: str,
    *,
    reading: Reading,
    from_step: StepNumber | None = None,
    to_step: StepNumber | None = None,
    limit: Annotated[int, Query(ge=1, le=50, description="Largest number of pairs in the answer")] = 12,
) -> ResponsePairs:
    """Return displaced correct responses, each with the most similar incorrect one of its group.

    The newest 400 sampled responses of the steps are compared.
    """
    require_run(reading, run_id)
    return find_pairs(reading, run_id, from_step=from_step, to_step=to_step, limit=limit)


@router.get("/{run_id}/phases", responses=NOT_FOUND)
def phases(run_id: str, reading: Reading) -> ItemList[PhaseItem]:
    """List the phases of the run, the oldest first."""
    require_run(reading, run_id)
    return ItemList(items=phase_items(reading.phases.all(run_id)))


@router.get("/{run_id}/actions", responses=NOT_FOUND)
def actions(run_id: str, reading: Reading, cursor: Cursor, limit: PageLimit = 100) -> ItemList[ActionItem]:
    """List the trainer's actions about alerts: taken, only planned in a dry run, or refused; the newest first."""
    require_run(reading, run_id)
    ordinals = reading.attempts.ordinals(run_id)
    return item_list(
        lambda most: reading.actions.page(run_id, limit=most, before=cursor),
        limit=limit,
        item=lambda row: action_item(row, ordinals),
        cursor=lambda row: row["number"],
    )


def read_detail(collector: Collector, run_id: str) -> RunDetail:
    """Return one run as `GET /runs/{run_id}` does, in a transaction of its own."""
    with collector.store.read() as reading:
        return _detail(reading, collector, run_id)


def _detail(reading: Reading, collector: Collector, run_id: str) -> RunDetail:
    row = reading.run_views.find_detail(run_id, now=collector.clock(), deadlines=collector.settings.deadlines)
    if row is None:
        raise UnknownRun.by_id(run_id)
    return run_detail(row, reading.steps.signals(run_id), max_signals=collector.settings.max_signals)
