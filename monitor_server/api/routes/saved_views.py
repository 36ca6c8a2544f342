"""Views of the fleet that people save under a name. A key of one project may access only the views of that project."""

import uuid
from dataclasses import asdict, replace
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from monitor_server.access.audit.entries import record_change
from monitor_server.api.body_fields import By, ShownName
from monitor_server.api.dependencies import Asking, Reading, Serving
from monitor_server.api.error_handlers import BODY_REFUSALS, CONFLICT, NOT_FOUND
from monitor_server.api.pagination import Cursor, ItemList, PageLimit, item_list
from monitor_server.api.schemas import Body, Schema, Time
from monitor_server.errors import SettingsConflict, TooManyViews, UnknownView
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.saved_views import SavedView
from monitor_server.text_safety.patterns import WITHOUT_NUL

__all__ = ["router"]

MAX_VIEWS = 200  # for a project; among more views, nobody finds one

router = APIRouter(prefix="/views")


class ViewItem(Schema):
    """A saved view: ``query`` contains its settings as in the address of the fleet, without the ``?``."""

    id: str
    name: str
    project: str | None
    query: str
    saved_at: Time
    saved_by: str


class ViewBody(Body):
    """The settings to save, and their name; an existing view with the name is replaced.

    ``seen`` is the ``saved_at`` of the view with this name that was there when its author decided, null if there was
    none. Without it, a view that somebody else has saved meanwhile is replaced too.
    """

    name: ShownName
    query: Annotated[str, Field(max_length=4000, pattern=WITHOUT_NUL)]
    seen: Annotated[float, Field(strict=True)] | None = None
    by: By = "somebody"


@router.get("")
def views(*, reading: Reading, asking: Asking, cursor: Cursor, limit: PageLimit = 200) -> ItemList[ViewItem]:
    """List the saved views that the key may access, the newest first."""
    return item_list(
        lambda most: reading.saved_views.page(limit=most, before=cursor, project=asking.project),
        limit=limit,
        item=lambda row: _item(row["view"]),
        cursor=lambda row: row["number"],
    )


@router.post("", responses=BODY_REFUSALS | CONFLICT)
async def save(body: ViewBody, collector: Serving, asking: Asking) -> ViewItem:
    """Save a view for the project of the key; a view of a key for every project is visible to such keys."""
    now = collector.clock()
    given = SavedView(
        id=uuid.uuid4().hex[:16],
        name=body.name,
        project=asking.project,
        query=body.query,
        saved_at=now,
        saved_by=asking.signature(body.by),
    )

    def write(repositories: Repositories) -> SavedView:
        repositories.saved_views.lock()
        held = repositories.saved_views.find_name(given.name, project=given.project)
        if held is not None and "seen" in body.model_fields_set and body.seen != held.saved_at:
            raise SettingsConflict(
                f"{held.saved_by} has saved a view {held.name!r} meanwhile; read it, and send its saved_at as seen"
            )
        if held is not None:
            saved = replace(given, id=held.id)
            repositories.saved_views.replace(saved)
        elif repositories.saved_views.count(given.project) >= MAX_VIEWS:
            raise TooManyViews(f"at most {MAX_VIEWS} views can be saved; delete one, or replace one by its name")
        else:
            saved = given
            repositories.saved_views.add(saved)
        record_change(repositories, asking, "view.save", saved.id, now=now, project=saved.project, by=body.by)
        return saved

    return _item(await collector.write("views", write))


@router.delete("/{view_id}", responses=NOT_FOUND)
async def delete(view_id: str, collector: Serving, asking: Asking) -> ViewItem:
    """Delete a saved view, and return it."""
    now = collector.clock()

    def write(repositories: Repositories) -> SavedView:
        found = repositories.saved_views.find(view_id)
        if found is None or not asking.reaches(found.project):
            raise UnknownView(f"no saved view has the id {view_id!r}; GET /api/v1/views lists them")
        repositories.saved_views.remove(view_id)
        record_change(repositories, asking, "view.delete", view_id, now=now, project=found.project)
        return found

    return _item(await collector.write("views", write))


def _item(view: SavedView) -> ViewItem:
    return ViewItem.model_validate(asdict(view))
