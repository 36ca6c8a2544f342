"""The labels that people write on a run: its title, tags and notes, and whether it is archived."""

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import AfterValidator, Field

from monitor_server.access.audit.entries import record_change
from monitor_server.api.dependencies import Asking, Serving
from monitor_server.api.error_handlers import BODY_REFUSALS, NOT_FOUND
from monitor_server.api.routes.runs import read_detail
from monitor_server.api.schemas import Body, RunDetail
from monitor_server.errors import UnknownRun
from monitor_server.step_processing.events import RunChanged
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.audit_log import detail_of_run
from monitor_server.text_safety.field_constraints import IN_LINES, SHOWN_IN_ONE_LINE, SHOWN_OR_BLANK
from monitor_server.text_safety.printable import printable

__all__ = ["RunLabels", "router"]

MAX_TAGS = 32
LONGEST_SHOWN = 300  # for a label in the audit log

router = APIRouter()


def _distinct(tags: list[str]) -> list[str]:
    return sorted(set(tags))


Title = Annotated[str, Field(max_length=200), *SHOWN_OR_BLANK, AfterValidator(str.strip)]
Tag = Annotated[str, Field(max_length=64), *SHOWN_IN_ONE_LINE, AfterValidator(str.strip)]
Notes = Annotated[str, Field(max_length=20_000), *IN_LINES, AfterValidator(str.strip)]


class RunLabels(Body):
    """The changes of labels; a field that is left out stays as it is, and null or an empty list removes it."""

    title: Annotated[Title | None, Field(description="Text that is shown instead of the run's name")] = None
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS), AfterValidator(_distinct)] = []  # noqa: RUF012 - pydantic copies it
    notes: Notes | None = None
    archived: Annotated[
        bool, Field(strict=True, description="Whether the dashboard's list of runs leaves the run out by default")
    ] = False


@router.patch("/runs/{run_id}", responses=NOT_FOUND | BODY_REFUSALS)
async def label_run(run_id: str, body: RunLabels, collector: Serving, asking: Asking) -> RunDetail:
    """Change people's labels of a run: title, tags, notes, and whether it is archived."""
    now = collector.clock()
    given = body.model_dump(exclude_unset=True)
    columns: dict[str, object] = {name: given[name] or None for name in ("title", "notes") if name in given}
    if "tags" in given:
        columns["tags"] = json.dumps(given["tags"]).encode() if given["tags"] else None
    if "archived" in given:
        columns["archived_at"] = now if given["archived"] else None

    def write(repositories: Repositories) -> Mapping[str, Any] | None:
        project = repositories.runs.project(run_id)
        if project is None or (columns and not repositories.runs.save_labels(run_id, columns)):
            raise UnknownRun.by_id(run_id)
        detail = detail_of_run(run_id, "; ".join(f"{name} {_label_text(given[name])}" for name in sorted(given)))
        record_change(repositories, asking, "run.label", run_id, now=now, project=project, detail=detail)
        return repositories.run_views.find(run_id, now=now, deadlines=collector.settings.deadlines)

    if (row := await collector.write(run_id, write)) is not None:
        collector.relay.publish([RunChanged(run_id=run_id, view=row)])
    return await asyncio.to_thread(read_detail, collector, run_id)


def _label_text(label: object) -> str:
    return printable(json.dumps(label, ensure_ascii=False), longest=LONGEST_SHOWN)
