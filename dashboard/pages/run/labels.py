"""The callbacks of the form that changes what people write about a run, archives or deletes it."""

from collections.abc import Mapping

from dash import Dash, Input, Output, State, no_update, set_props

from dashboard.api.client import ApiClient
from dashboard.api.errors import ApiError
from dashboard.components.run.labels import parse_tags
from dashboard.ids import frame as frame_ids
from dashboard.ids import run as run_ids

__all__ = ["register"]


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def save(  # noqa: PLR0917 - Dash passes inputs by their places
        clicks: int | None,
        title: str | None,
        tags: str | None,
        notes: str | None,
        archived: list[str],
        live: Mapping[str, str],
    ) -> object:
        if not clicks:  # the button was drawn and not clicked
            return no_update
        labels = {"title": title or None, "tags": parse_tags(tags), "notes": notes or None, "archived": bool(archived)}
        try:
            async with ApiClient(api_url) as api:
                await api.runs.label(live["run"], **labels)
        except ApiError as error:
            return f"Not saved. {error}"
        set_props(run_ids.LABEL_NOTES_SHOWN, {"children": notes, "hidden": not notes})
        set_props(run_ids.REFRESH, {"data": f"labels {clicks}"})
        return "Saved."

    async def delete(confirmed: int | None, live: Mapping[str, str]) -> tuple[object, object]:
        if not confirmed:
            return no_update, no_update
        try:
            async with ApiClient(api_url) as api:
                await api.runs.delete(live["run"])
        except ApiError as error:
            return f"Not deleted. {error}", no_update
        return "Deleted.", "/"

    app.callback(
        Output(run_ids.LABEL_STATE, "children"),
        Input(run_ids.LABEL_SAVE, "n_clicks"),
        State(run_ids.LABEL_TITLE, "value"),
        State(run_ids.LABEL_TAGS, "value"),
        State(run_ids.LABEL_NOTES, "value"),
        State(run_ids.LABEL_ARCHIVED, "value"),
        State(frame_ids.LIVE, "data"),
        prevent_initial_call=True,
    )(save)
    app.callback(
        Output(run_ids.LABEL_STATE, "children", allow_duplicate=True),
        Output(frame_ids.ADDRESS, "pathname", allow_duplicate=True),
        Input(run_ids.DELETE_CONFIRMED, "submit_n_clicks"),
        State(frame_ids.LIVE, "data"),
        prevent_initial_call=True,
    )(delete)
    app.clientside_callback(
        "(clicks) => Boolean(clicks)",
        Output(run_ids.DELETE_CONFIRMED, "displayed"),
        Input(run_ids.DELETE, "n_clicks"),
        prevent_initial_call=True,
    )
