"""The callbacks that fill the forms of channels and routes with what is saved, or empty them."""

from collections.abc import Sequence

from dash import ALL, Dash, Input, Output, State, ctx, no_update

from dashboard.components.settings.channel_form_values import CHANNEL_FIELDS, ROUTE_FIELDS, channel_fields, route_fields
from dashboard.ids.settings import channels as channel_ids
from dashboard.ids.settings import forms as form_ids
from dashboard.pages.settings.saved_channels import again, problems_of, read_settings

__all__ = ["register"]


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def fill_channel(edits: Sequence[int | None], cleared: int | None) -> tuple[object, ...]:
        chosen = ctx.triggered_id
        name = chosen.get("channel") if isinstance(chosen, dict) and any(edits) else None
        if not isinstance(name, str) and not (chosen == channel_ids.NEW and cleared):
            return (no_update,) * (5 + 2 * len(CHANNEL_FIELDS))
        settings = await read_settings(api_url)
        if not isinstance(settings, str) and name is not None and name not in settings["channels"]:
            settings = f"There is no channel {name} any more. Open the page again."
        if isinstance(settings, str):
            return no_update, no_update, no_update, True, settings, *[no_update] * 2 * len(CHANNEL_FIELDS)
        title = "Add a channel" if name is None else f"Change the channel {name}"
        fields = channel_fields(settings, str(name))
        held = [fields[field] for field in CHANNEL_FIELDS]
        return name, title, name is not None, True, "", *held, *[""] * len(CHANNEL_FIELDS)

    async def fill_route(edits: Sequence[int | None], cleared: int | None, drawn: int) -> tuple[object, ...]:
        chosen = ctx.triggered_id
        number = chosen.get("route") if isinstance(chosen, dict) and any(edits) else None
        if not isinstance(number, int) and not (chosen == channel_ids.ROUTE_NEW and cleared):
            return (no_update,) * (4 + 2 * len(ROUTE_FIELDS))
        settings = await read_settings(api_url)
        # The button belongs to a route of the drawn version; another route may have its place in the present version.
        if not isinstance(settings, str) and number is not None and settings["version"] != drawn:
            settings = "Channels and routes have changed since this page showed them. Open the page again."
        if isinstance(settings, str):
            return no_update, no_update, True, settings, *[no_update] * 2 * len(ROUTE_FIELDS)
        title = "Add a route" if number is None else f"Change route {number + 1}"
        fields = route_fields(settings, number)
        edited = None if number is None else {"route": number, "version": drawn}
        return edited, title, True, "", *[fields[name] for name in ROUTE_FIELDS], *[""] * len(ROUTE_FIELDS)

    channel = [
        Output(channel_ids.EDITED, "data"), Output(channel_ids.FORM_TITLE, "children"),
        Output(form_ids.field("channel", "name"), "disabled"), Output(channel_ids.FORM, "open"),
        Output(channel_ids.SAVED, "children"), *_values("channel", CHANNEL_FIELDS),
        *problems_of("channel", CHANNEL_FIELDS),
    ]  # fmt: skip
    app.callback(
        *again(channel), Input(channel_ids.button("edit", ALL), "n_clicks"), Input(channel_ids.NEW, "n_clicks"),
        prevent_initial_call=True,
    )(fill_channel)  # fmt: skip
    route = [
        Output(channel_ids.ROUTE_EDITED, "data"), Output(channel_ids.ROUTE_FORM_TITLE, "children"),
        Output(channel_ids.ROUTE_FORM, "open"), Output(channel_ids.ROUTE_SAVED, "children"),
        *_values("route", ROUTE_FIELDS), *problems_of("route", ROUTE_FIELDS),
    ]  # fmt: skip
    app.callback(
        *again(route), Input(channel_ids.route_button("edit", ALL), "n_clicks"),
        Input(channel_ids.ROUTE_NEW, "n_clicks"), State(channel_ids.DRAWN, "data"), prevent_initial_call=True,
    )(fill_route)  # fmt: skip


def _values(form: str, names: Sequence[str]) -> list[Output]:
    return [Output(form_ids.field(form, name), "value") for name in names]
