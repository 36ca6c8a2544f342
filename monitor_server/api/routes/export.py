"""Downloads of runs and projects."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from monitor_server.api.dependencies import Serving
from monitor_server.api.error_handlers import NOT_FOUND
from monitor_server.api.export import export_jsonl, export_parquet
from monitor_server.errors import UnknownProject, UnknownRun
from monitor_server.store.database import Store

__all__ = ["router"]

router = APIRouter()

Format = Annotated[Literal["jsonl", "parquet"], Query(alias="format", description="jsonl or parquet")]
MEDIA_TYPES = {"jsonl": "application/jsonl", "parquet": "application/vnd.apache.parquet"}
_FILE = {
    "description": "the file",
    "content": {media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in MEDIA_TYPES.values()},
}


@router.get("/runs/{run_id}/export", response_class=StreamingResponse, responses={200: _FILE, **NOT_FOUND})
def export_run(run_id: str, collector: Serving, *, form: Format = "jsonl") -> StreamingResponse:
    """Download the steps, acknowledgements, phases and alerts of a run; `rlvitals check` and `replay` read the file."""
    with collector.store.read() as reading:
        if not reading.runs.exists(run_id):
            raise UnknownRun.by_id(run_id)
    return _file(collector.store, [run_id], form, name=run_id)


@router.get("/export", response_class=StreamingResponse, responses={200: _FILE, **NOT_FOUND})
def export_project(project: str, collector: Serving, *, form: Format = "jsonl") -> StreamingResponse:
    """Download all runs of a project in one file."""
    now, deadlines = collector.clock(), collector.settings.deadlines
    with collector.store.read() as reading:
        found = reading.retention.statuses(now=now, deadlines=deadlines, project=project)
    if not found:
        raise UnknownProject.by_name(project)
    return _file(collector.store, list(found), form, name="project")


def _file(store: Store, run_ids: Sequence[str], form: str, *, name: str) -> StreamingResponse:
    parts = (export_parquet if form == "parquet" else export_jsonl)(store, run_ids)
    # What cannot begin is an error, and not a broken download. A run that was deleted meanwhile has no line.
    first = next(parts, b"")
    return StreamingResponse(
        _with_first(first, parts),
        media_type=MEDIA_TYPES[form],
        headers={"Content-Disposition": f'attachment; filename="{name}.{form}"'},
    )


def _with_first(first: bytes, others: Iterator[bytes]) -> Iterator[bytes]:
    return chain([first], others)
