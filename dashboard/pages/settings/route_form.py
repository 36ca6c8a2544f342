"""The callbacks of the forms of a route and of the delivery."""

from typing import Final

from dash import Dash, Input, Output, State, no_update, set_props

from dashboard.collector_client.errors import ApiError, describe_failure
from dashboard.components.settings.channel_form_values import (
    DELIVERY_FIELDS,
    DELIVERY_NUMBERS,
    ROUTE_FIELDS,
    problems_by_field,
    with_delivery,
    with_route,
)
from dashboard.components.values import read_numbers
from dashboard.ids.settings import channels as channel_ids
from dashboard.pages.settings.saved_channels import SHOWN, again, problems_of, save_change, values_of

__all__ = ["register"]

MOVED: Final = (
    "Not saved. Channels and routes have changed since this form was filled, and another route may stand in this "
    "place: press Edit beside the route again."
)


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def save_route(clicks: int | None, version: int, edited: object, *values: object) -> tuple[object, ...]:
        fields = dict(zip(ROUTE_FIELDS, values, strict=True))
        filled = edited if isinstance(edited, dict) else {}
        number = filled.get("route")
        if not clicks or (edited is not None and not isinstance(number, int)):
            return (no_update,) * (3 + len(SHOWN) + len(fields))
        # Another route may stand in this place in another version.
        if number is not None and filled.get("version") != version:
            return MOVED, *[no_update] * (2 + len(SHOWN)), *[""] * len(fields)
        fields, wrong = read_numbers(fields, ["after_minutes"])
        if any(wrong.values()):
            return "Not saved. ", *[no_update] * (2 + len(SHOWN)), *wrong.values()
        problem, saved, shown = await save_change(
            api_url, version, lambda settings: with_route(settings, number, fields)
        )
        found, other = problems_by_field(str(problem or ""), fields)
        if saved is None:
            failure = describe_failure("Not saved.", problem or ApiError(), other)
            return failure, no_update, no_update, *shown, *found.values()
        # The form stays at its route, so that another press of the save button changes this route and adds no other.
        place = len(saved["routes"]) - 1 if number is None else number
        held = {"route": place, "version": saved["version"]}
        return "Saved.", held, f"Change route {place + 1}", *shown, *found.values()

    async def save_delivery(clicks: int | None, version: int, *values: object) -> tuple[object, ...]:
        fields = dict(zip(DELIVERY_FIELDS, values, strict=True))
        if not clicks:
            return (no_update,) * (1 + len(SHOWN) + len(fields))
        fields, wrong = read_numbers(fields, DELIVERY_NUMBERS)
        if any(wrong.values()):
            return "Not saved. ", *[no_update] * len(SHOWN), *wrong.values()
        problem, _, shown = await save_change(api_url, version, lambda settings: with_delivery(settings, fields))
        found, other = problems_by_field(str(problem or ""), fields)
        if problem is None:
            # The form and its message are drawn anew with the channels, so the message stands above them.
            set_props(channel_ids.STATE, {"children": "The delivery is saved. Restore an earlier version to undo it."})
            return "", *shown, *[no_update] * len(fields)
        return describe_failure("Not saved.", problem, other), *[no_update] * len(SHOWN), *found.values()

    version = State(channel_ids.DRAWN, "data")
    app.callback(
        Output(channel_ids.ROUTE_SAVED, "children"), Output(channel_ids.ROUTE_EDITED, "data"),
        Output(channel_ids.ROUTE_FORM_TITLE, "children"), *again(SHOWN), *problems_of("route", ROUTE_FIELDS),
        Input(channel_ids.ROUTE_SAVE, "n_clicks"), version, State(channel_ids.ROUTE_EDITED, "data"),
        *values_of("route", ROUTE_FIELDS), prevent_initial_call=True,
    )(save_route)  # fmt: skip
    app.callback(
        Output(channel_ids.DELIVERY_SAVED, "children"), *again(SHOWN), *problems_of("delivery", DELIVERY_FIELDS),
        Input(channel_ids.DELIVERY_SAVE, "n_clicks"), version, *values_of("delivery", DELIVERY_FIELDS),
        prevent_initial_call=True,
    )(save_delivery)  # fmt: skip
