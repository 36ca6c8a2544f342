"""Deletes runs and projects."""

from typing import Annotated

from fastapi import APIRouter, Query

from monitor_server.access.audit.entries import record_change
from monitor_server.api.dependencies import Asking, Serving
from monitor_server.api.error_handlers import CONFLICT, NOT_FOUND
from monitor_server.api.schemas import Schema
from monitor_server.api.use_cases.reset_and_delete_runs import delete_runs
from monitor_server.retention.deletion import delete_project, delete_run
from monitor_server.store.repositories import Repositories

__all__ = ["DeletedRuns", "router"]

router = APIRouter()

Force = Annotated[bool, Query(description="Also delete runs whose trainer still sends, or with which a rule compares")]


class DeletedRuns(Schema):
    """The ids of the runs, which are hidden from now on; their rows are removed in the background."""

    runs: list[str]


@router.delete("/runs/{run_id}", responses=NOT_FOUND | CONFLICT)
async def delete_one_run(run_id: str, collector: Serving, asking: Asking, *, force: Force = False) -> DeletedRuns:
    """Delete a run with all its stored data. It is hidden at once, and its rows are removed within seconds.

    A trainer that continues to send is answered 503 until they are removed. Then its next batch begins the run anew.
    """
    now, deadlines = collector.clock(), collector.settings.deadlines

    def begin(repositories: Repositories) -> tuple[str | None, list[str]]:
        project = repositories.runs.project(run_id)
        deleted = delete_run(repositories, run_id, is_forced=force, now=now, deadlines=deadlines)
        record_change(repositories, asking, "run.delete", run_id, now=now, project=project)
        return project, deleted

    return DeletedRuns(runs=await delete_runs(collector, run_id, begin))


@router.delete("/projects/{name:path}", responses=NOT_FOUND | CONFLICT)
async def delete_one_project(name: str, collector: Serving, asking: Asking, *, force: Force = False) -> DeletedRuns:
    """Delete a project with its runs, silences and views, or nothing if the trainer of one run still sends."""
    now, deadlines = collector.clock(), collector.settings.deadlines

    def begin(repositories: Repositories) -> tuple[str | None, list[str]]:
        deleted = delete_project(repositories, name, is_forced=force, now=now, deadlines=deadlines)
        detail = f"{len(deleted)} runs"
        record_change(repositories, asking, "project.delete", name, now=now, project=name, detail=detail)
        return name, deleted

    return DeletedRuns(runs=await delete_runs(collector, name, begin))
