"""Saved views of the fleet: read, saved and deleted at the collector. assets/fleet.js opens them."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from dash import Dash, Input, Output, State, ctx, no_update

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, NotFoundError, describe_failure
from dashboard.collector_client.types.administration import ViewItem
from dashboard.components.fleet.filters import view_options
from dashboard.ids import fleet as fleet_ids

__all__ = ["read_views", "register"]

CONFLICT: Final = 409
OUTDATED: Final = "Not saved. The dashboard was upgraded since this page was loaded: load the page again."


class ShownView(ViewItem):
    """A saved view; ``is_own`` states whether the caller replaces it by another one of its name."""

    is_own: bool


async def read_views(api_url: str) -> list[ShownView]:
    """Read the saved views; an older collector has none."""
    try:
        async with ApiClient(api_url) as api:
            return await _read_views(api)
    except NotFoundError:
        return []


def register(app: Dash, api_url: str) -> None:
    """Register the callback that saves a view under a name, or deletes a view."""

    async def change(
        to_save: Mapping[str, Any] | None, to_delete: Mapping[str, str] | None, chosen: str | None
    ) -> tuple[object, object, object, str]:
        done = refusal = ""
        is_save = ctx.triggered_id == fleet_ids.VIEW_TO_SAVE
        undone = "Not saved." if is_save else "Not deleted."
        if is_save and to_save and "seen" not in to_save:  # an earlier dashboard's page does not say what it has seen
            return no_update, no_update, no_update, OUTDATED
        try:
            async with ApiClient(api_url) as api:
                if is_save and to_save:
                    try:
                        chosen = (await api.views.save(to_save["name"], to_save["query"], seen=to_save["seen"]))["id"]
                        done = "Saved."
                    except ApiError as error:
                        if error.status != CONFLICT:
                            raise
                        refusal = str(error)
                elif ctx.triggered_id == fleet_ids.VIEW_TO_DELETE and to_delete:
                    with suppress(NotFoundError):  # somebody else has deleted it since the page was drawn
                        await api.views.delete(to_delete["id"])
                    chosen, done = None, "Deleted."
                views = await _read_views(api)
        except ApiError as error:
            return (
                no_update,
                no_update,
                no_update,
                refusal
                or (f"{done} The list of views was not read. {error}" if done else describe_failure(undone, error)),
            )
        if refusal and to_save:
            held = next((view for view in views if view["is_own"] and view["name"] == to_save["name"]), None)
            message = refusal if held is None else _conflict_message(held)
            return views, view_options(views), no_update, message
        return views, view_options(views), chosen, ""

    app.callback(
        Output(fleet_ids.VIEWS, "data"),
        Output(fleet_ids.VIEW, "options"),
        Output(fleet_ids.VIEW, "value"),
        Output(fleet_ids.VIEW_STATE, "children"),
        Input(fleet_ids.VIEW_TO_SAVE, "data"),
        Input(fleet_ids.VIEW_TO_DELETE, "data"),
        State(fleet_ids.VIEW, "value"),
        prevent_initial_call=True,
    )(change)


async def _read_views(api: ApiClient) -> list[ShownView]:
    views = await api.views.all()
    # Views of every project belong to a caller who may access every project: only others need another request.
    project = await api.keys.project() if any(view["project"] is not None for view in views) else None
    return [{**view, "is_own": view["project"] == project} for view in views]


def _conflict_message(view: ViewItem) -> str:
    """Return a message about a view that was saved under the same name since the browser read the views."""
    return f"Not saved. {view['saved_by']} has saved a view of this name meanwhile. Save again to replace it."
