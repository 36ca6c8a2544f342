"""What people write about a run: its title, tags and notes, and whether it is archived."""

import asyncio
import json
from typing import Annotated

from fastapi import APIRouter
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from monitor_server.access.audit.changes import record_change
from monitor_server.api.dependencies import Asking, Serving
from monitor_server.api.error_handlers import BODY_REFUSALS, NOT_FOUND
from monitor_server.api.routes.runs import read_detail
from monitor_server.api.schemas import RunDetail
from monitor_server.errors import UnknownRun
from monitor_server.store.repositories import Repositories

__all__ = ["RunLabels", "router"]

MAX_TAGS = 32

router = APIRouter()


def _storable(text: str) -> str:
    """Check that a text can be stored.

    Raises:
        ValueError: If it has a NUL, which PostgreSQL refuses.
    """
    if "\0" in text:
        raise ValueError("it must not contain the character U+0000")
    return text.strip()


def _distinct(tags: list[str]) -> list[str]:
    return sorted(set(tags))


Text = Annotated[str, AfterValidator(_storable)]
Tag = Annotated[Text, Field(min_length=1, max_length=64)]


class RunLabels(BaseModel):
    """What to change; a field that is left out stays as it is, and null or an empty list removes it."""

    model_config = ConfigDict(extra="forbid")

    title: Annotated[Text | None, Field(max_length=200, description="Shown in place of the run's name")] = None
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS), AfterValidator(_distinct)] = []
    notes: Annotated[Text | None, Field(max_length=20_000)] = None
    archived: Annotated[bool, Field(strict=True, description="Whether lists may leave the run out")] = False


@router.patch("/runs/{run_id}", responses=NOT_FOUND | BODY_REFUSALS)
async def label_run(run_id: str, body: RunLabels, collector: Serving, asking: Asking) -> RunDetail:
    """Change what people write about a run: title, tags, notes, and whether it is archived."""
    now = collector.clock()
    given = body.model_dump(exclude_unset=True)
    columns: dict[str, object] = {name: given[name] or None for name in ("title", "notes") if name in given}
    if "tags" in given:
        columns["tags"] = json.dumps(given["tags"]).encode() if given["tags"] else None
    if "archived" in given:
        columns["archived_at"] = now if given["archived"] else None

    def write(repositories: Repositories) -> None:
        project = repositories.runs.project(run_id)
        if project is None:
            raise UnknownRun.by_id(run_id)
        if columns:
            repositories.runs.save_labels(run_id, columns)
        detail = ", ".join(sorted(given))
        record_change(repositories, asking, "run.label", run_id, now=now, project=project, detail=detail)

    await asyncio.wrap_future(collector.writer.submit(run_id, write))
    return await asyncio.to_thread(read_detail, collector, run_id)
