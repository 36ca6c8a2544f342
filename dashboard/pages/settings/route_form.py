"""The callbacks of the forms of a route and of the delivery."""

from dash import Dash, Input, Output, State, no_update

from dashboard import ids
from dashboard.components.settings.stated_channels import (
    DELIVERY_FIELDS,
    ROUTE_FIELDS,
    problems_by_field,
    with_delivery,
    with_route,
)
from dashboard.pages.settings.saved_channels import SHOWN, again, problems_of, save_change, values_of

__all__ = ["register"]


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def save_route(clicks: int | None, version: int, edited: int | None, *values: object) -> tuple[object, ...]:
        fields = dict(zip(ROUTE_FIELDS, values, strict=True))
        if not clicks:
            return (no_update,) * (1 + len(SHOWN) + len(fields))
        problem, shown = await save_change(api_url, version, lambda settings: with_route(settings, edited, fields))
        found, other = problems_by_field(problem or "", fields)
        return "Saved." if problem is None else f"Not saved. {other}", *shown, *found.values()

    async def save_delivery(clicks: int | None, version: int, *values: object) -> tuple[object, ...]:
        fields = dict(zip(DELIVERY_FIELDS, values, strict=True))
        if not clicks:
            return (no_update,) * (1 + len(SHOWN) + len(fields))
        problem, shown = await save_change(api_url, version, lambda settings: with_delivery(settings, fields))
        found, other = problems_by_field(problem or "", fields)
        if problem is None:
            return "Saved.", *shown, *[no_update] * len(fields)
        return f"Not saved. {other}", *[no_update] * len(SHOWN), *found.values()

    version = State(ids.CHANNELS_DRAWN, "data")
    app.callback(
        Output(ids.ROUTE_SAVED, "children"), *again(SHOWN), *problems_of("route", ROUTE_FIELDS),
        Input(ids.ROUTE_SAVE, "n_clicks"), version, State(ids.ROUTE_EDITED, "data"), *values_of("route", ROUTE_FIELDS),
        prevent_initial_call=True,
    )(save_route)  # fmt: skip
    app.callback(
        Output(ids.DELIVERY_SAVED, "children"), *again(SHOWN), *problems_of("delivery", DELIVERY_FIELDS),
        Input(ids.DELIVERY_SAVE, "n_clicks"), version, *values_of("delivery", DELIVERY_FIELDS),
        prevent_initial_call=True,
    )(save_delivery)  # fmt: skip
