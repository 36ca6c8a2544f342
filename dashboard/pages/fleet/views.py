"""Saved views of the fleet: read, saved and deleted at the collector. assets/fleet.js opens them."""

from collections.abc import Mapping

from dash import Dash, Input, Output, State, ctx, no_update

from dashboard import ids
from dashboard.api.client import ApiClient
from dashboard.api.errors import ApiError, NotFoundError
from dashboard.api.types.administration import ViewItem
from dashboard.components.fleet.filters import view_options

__all__ = ["read_views", "register"]


async def read_views(api_url: str) -> list[ViewItem]:
    """Read the saved views; an older collector has none."""
    try:
        async with ApiClient(api_url) as api:
            return await api.views()
    except NotFoundError:
        return []


def register(app: Dash, api_url: str) -> None:
    """Register what saves a view under a name, and what deletes the one that is chosen."""

    async def change(
        to_save: Mapping[str, str] | None, _clicks: int | None, chosen: str | None
    ) -> tuple[object, object, object, str]:
        try:
            async with ApiClient(api_url) as api:
                if ctx.triggered_id == ids.FLEET_VIEW_TO_SAVE and to_save:
                    chosen = (await api.save_view(to_save["name"], to_save["query"]))["id"]
                elif ctx.triggered_id == ids.FLEET_FORGET and chosen:
                    await api.delete_view(chosen)
                    chosen = None
                views = await api.views()
        except ApiError as error:
            return no_update, no_update, no_update, str(error)
        return views, view_options(views), chosen, ""

    app.callback(
        Output(ids.FLEET_VIEWS, "data"),
        Output(ids.FLEET_VIEW, "options"),
        Output(ids.FLEET_VIEW, "value"),
        Output(ids.FLEET_VIEW_STATE, "children"),
        Input(ids.FLEET_VIEW_TO_SAVE, "data"),
        Input(ids.FLEET_FORGET, "n_clicks"),
        State(ids.FLEET_VIEW, "value"),
        prevent_initial_call=True,
    )(change)
