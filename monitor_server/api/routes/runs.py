"""Runs, and what is drawn of one: series, steps, phases."""

from typing import Annotated

from fastapi import APIRouter, Query

from monitor_server.api.dependencies import Cursor, Limit, Reading, Serving
from monitor_server.api.schemas import (
    ActionItem,
    Page,
    PhaseItem,
    ResponseItem,
    RunDetail,
    RunItem,
    SeriesItem,
    Status,
    StepItem,
    response_item,
    run_detail,
    run_item,
)
from monitor_server.api.series import downsample
from monitor_server.errors import UnknownRun
from trainer_hooks.wire import ResponseKind

__all__ = ["router"]

router = APIRouter(prefix="/runs")


@router.get("")
def runs(
    *,
    collector: Serving,
    reading: Reading,
    cursor: Cursor,
    project: str | None = None,
    status: Status | None = None,
    limit: Limit = 100,
) -> Page[RunItem]:
    """Give runs, the newest first."""
    rows = reading.runs.page(
        now=collector.clock(),
        deadlines=collector.settings.deadlines,
        limit=limit + 1,
        before=cursor,
        project=project,
        status=status,
    )
    following = str(rows[limit - 1]["number"]) if len(rows) > limit else None
    return Page(items=[run_item(row) for row in rows[:limit]], next=following)


@router.get("/{run_id}")
def run(run_id: str, collector: Serving, reading: Reading) -> RunDetail:
    """Give one run with its config and the signals it has sent."""
    row = reading.runs.view(run_id, now=collector.clock(), deadlines=collector.settings.deadlines)
    if row is None:
        raise UnknownRun(f"no run has the id {run_id!r}; GET /api/v1/runs lists them")
    return run_detail(row, reading.steps.signals(run_id))


@router.get("/{run_id}/series")
def series(
    run_id: str,
    *,
    reading: Reading,
    signals: Annotated[list[str] | None, Query(description="Left out: all")] = None,
    from_step: Annotated[int | None, Query(ge=0)] = None,
    to_step: Annotated[int | None, Query(ge=0)] = None,
    max_points: Annotated[int, Query(ge=10, le=1_000_000, description="Most points of a signal")] = 1500,
) -> Page[SeriesItem]:
    """Give signals over steps, of too many points the extremes."""
    _require_run(reading, run_id)
    names = reading.steps.signals(run_id) if signals is None else list(dict.fromkeys(signals))
    columns = reading.steps.columns(run_id, names, from_step=from_step, to_step=to_step)
    thinned = [downsample(column, max_points=max_points) for column in columns]
    return Page(items=[SeriesItem(signal=c.signal, steps=c.steps.tolist(), values=c.values.tolist()) for c in thinned])


@router.get("/{run_id}/steps")
def steps(
    run_id: str,
    reading: Reading,
    cursor: Cursor,
    from_step: Annotated[int, Query(ge=0)] = 0,
    limit: Limit = 100,
) -> Page[StepItem]:
    """Give steps with all their signals, in ascending order."""
    _require_run(reading, run_id)
    found = reading.steps.page(run_id, from_step=max(from_step, cursor or 0), limit=limit + 1)
    ordinals = reading.runs.attempts(run_id)
    items = [
        StepItem(
            step=step.step,
            attempt=ordinals[step.attempt][0],
            time=step.time,
            policy_version=step.policy_version,
            signals=dict(step.signals),
        )
        for step in found[:limit]
    ]
    return Page(items=items, next=str(found[limit].step) if len(found) > limit else None)


@router.get("/{run_id}/responses")
def responses(
    run_id: str,
    *,
    reading: Reading,
    cursor: Cursor,
    from_step: Annotated[int | None, Query(ge=0)] = None,
    to_step: Annotated[int | None, Query(ge=0)] = None,
    kind: ResponseKind | None = None,
    correct: bool | None = None,
    limit: Annotated[int, Query(ge=1, le=200, description="Most items in one answer")] = 20,
) -> Page[ResponseItem]:
    """Give sampled responses with their tokens, the newest first."""
    _require_run(reading, run_id)
    found = reading.responses.page(
        run_id,
        limit=limit + 1,
        before=cursor,
        from_step=from_step,
        to_step=to_step,
        kind=kind,
        correct=correct,
    )
    ordinals = reading.runs.attempts(run_id)
    items = [response_item(run_id, stored, attempt=ordinals[stored.attempt][0]) for stored in found[:limit]]
    return Page(items=items, next=str(found[limit - 1].number) if len(found) > limit else None)


@router.get("/{run_id}/phases")
def phases(run_id: str, reading: Reading) -> Page[PhaseItem]:
    """Give the phases that the run went through."""
    _require_run(reading, run_id)
    return Page(
        items=[
            PhaseItem.model_validate({"phase": phase, "from_step": first, "to_step": last})
            for phase, first, last in reading.phases.all(run_id)
        ]
    )


@router.get("/{run_id}/actions")
def actions(run_id: str, reading: Reading, cursor: Cursor, limit: Limit = 100) -> Page[ActionItem]:
    """Give what the trainer did about alerts, would have done, or could not do; the newest first."""
    _require_run(reading, run_id)
    rows = reading.actions.page(run_id, limit=limit + 1, before=cursor)
    ordinals = reading.runs.attempts(run_id)
    items = [ActionItem.model_validate(row | {"attempt": ordinals[row["attempt"]][0]}) for row in rows[:limit]]
    return Page(items=items, next=str(rows[limit - 1]["number"]) if len(rows) > limit else None)


def _require_run(reading: Reading, run_id: str) -> None:
    if not reading.runs.exists(run_id):
        raise UnknownRun(f"no run has the id {run_id!r}; GET /api/v1/runs lists them")
