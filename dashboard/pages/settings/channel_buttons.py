"""The callbacks of the buttons beside channels, routes and versions: remove, move up, restore."""

from collections.abc import Sequence

from dash import ALL, Dash, Input, Output, State, ctx, no_update

from dashboard.collector_client.errors import describe_failure
from dashboard.components.settings.channel_form_values import move_route_up, without_channel, without_route
from dashboard.ids.settings import channels as channel_ids
from dashboard.pages.settings.saved_channels import SHOWN, Change, again, save_change

__all__ = ["register"]


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def act(
        channels: Sequence[int | None], routes: Sequence[int | None], versions: Sequence[int | None], version: int
    ) -> tuple[object, ...]:
        chosen = ctx.triggered_id
        if not any((*channels, *routes, *versions)) or not isinstance(chosen, dict):
            return (no_update,) * (1 + len(SHOWN))
        number = chosen.get("route", chosen.get("version", 0))
        if not isinstance(number, int):  # no page of the dashboard sends such a value
            return (no_update,) * (1 + len(SHOWN))
        if chosen.get("type") == "version-restore":
            problem, _, shown = await save_change(api_url, version, None, restored=number)
            return (
                f"Version {number} is in force again."
                if problem is None
                else describe_failure("Not restored.", problem),
                *shown,
            )
        changes: dict[tuple[str, str], Change] = {
            ("channel-button", "remove"): lambda settings: without_channel(settings, str(chosen.get("channel"))),
            ("route-button", "remove"): lambda settings: without_route(settings, number),
            ("route-button", "up"): lambda settings: move_route_up(settings, number),
        }
        change = changes.get((str(chosen.get("type")), str(chosen.get("action"))))
        if change is None:  # the button Edit changes no settings
            return (no_update,) * (1 + len(SHOWN))
        problem, _, shown = await save_change(api_url, version, change)
        message = "Saved. Restore an earlier version to undo it."
        return message if problem is None else describe_failure("Not saved.", problem), *shown

    buttons = [
        Input(name, "n_clicks")
        for name in (
            channel_ids.button(ALL, ALL),
            channel_ids.route_button(ALL, ALL),
            channel_ids.version_restore(ALL),
        )
    ]
    state = Output(channel_ids.STATE, "children", allow_duplicate=True)
    app.callback(state, *again(SHOWN), *buttons, State(channel_ids.DRAWN, "data"), prevent_initial_call=True)(act)
