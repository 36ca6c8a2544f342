"""The fleet page, at ``/``: every run, the most urgent first."""

import asyncio
from urllib.parse import parse_qsl

from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.dependencies import ALL
from dash.development.base_component import Component

from dashboard import ids
from dashboard.api_client import ApiClient, ApiError
from dashboard.components.connect import connect_card
from dashboard.components.fleet import fleet_filters, fleet_index, fleet_list
from dashboard.components.page_frame import message

__all__ = ["fleet_page", "register"]


async def fleet_page(api_url: str, connect_url: str, query: str = "") -> Component:
    """Draw the page; without runs it shows how to connect a trainer to ``connect_url``.

    ``query`` may set the filters, as the links of Prometheus' alerts do: ``project=...&run=...``.
    """
    asked = dict(parse_qsl(query))
    try:
        async with ApiClient(api_url) as api:
            runs, alerts = await asyncio.gather(api.runs(), api.alerts(state="firing"))
    except ApiError as error:
        return message("The fleet cannot be shown", str(error))
    return html.Div(
        className="fleet-page",
        children=[
            dcc.Store(id=ids.LIVE, data={"page": "fleet", "title": "Fleet"}),
            html.H1("Runs", className="unseen"),
            dcc.Store(id=ids.FLEET_REFRESH),
            dcc.Store(id=ids.FLEET_INDEX, data=fleet_index(runs, alerts)),
            fleet_filters(runs, project=asked.get("project"), text=asked.get("run", "")),
            html.Div(id=ids.FLEET, children=fleet_list(runs, alerts) if runs else connect_card(connect_url)),
            html.P("No run matches.", id=ids.FLEET_NONE_MATCH, className="none-match", hidden=True),
        ],
    )


def register(app: Dash, api_url: str) -> None:
    """Register the refresh of the rows when runs or alerts change, and the filters, which work in the browser.

    Where the page had no run, the first one opens.
    """

    async def refresh(changed: object, shown: list[object] | None) -> tuple[object, object, object]:
        if changed is None:  # Dash calls it when the page is drawn, because the address was there before
            return no_update, no_update, no_update
        try:
            async with ApiClient(api_url) as api:
                runs, alerts = await asyncio.gather(api.runs(), api.alerts(state="firing"))
        except ApiError as error:
            return message("The fleet cannot be shown", str(error)), no_update, no_update
        if not runs:
            return no_update, no_update, no_update
        is_first = shown == [] and len(runs) == 1
        address = f"/runs/{runs[0]['id']}" if is_first else no_update
        return fleet_list(runs, alerts), fleet_index(runs, alerts), address

    async def play_sample(clicks: int | None) -> object:
        if not clicks:  # the button was drawn and not clicked
            return no_update
        try:
            async with ApiClient(api_url) as api:
                await api.play_sample()
        except ApiError as error:
            return f"It cannot be played: {error}"
        return "It opens here in a moment."

    app.callback(
        Output(ids.CONNECT_SAMPLE_STATE, "children"),
        Input(ids.CONNECT_SAMPLE, "n_clicks"),
        prevent_initial_call=True,
    )(play_sample)
    app.callback(
        Output(ids.FLEET, "children"),
        Output(ids.FLEET_INDEX, "data"),
        Output(ids.ADDRESS, "pathname"),
        Input(ids.FLEET_REFRESH, "data"),
        State(ids.FLEET_INDEX, "data"),
        prevent_initial_call=True,
    )(refresh)
    app.clientside_callback(
        "(chosen, panels) => panels.map((panel) => panel.name !== chosen)",
        Output({"type": "connect-panel", "name": ALL}, "hidden"),
        Input(ids.CONNECT_WAY, "value"),
        State({"type": "connect-panel", "name": ALL}, "id"),
    )
    app.clientside_callback(
        "function() { return window.dash_clientside.rlvitals.filterFleet.apply(null, arguments); }",
        Output({"type": "fleet-row", "run": ALL}, "style"),
        Output(ids.FLEET_NONE_MATCH, "hidden"),
        Input(ids.FLEET_TEXT, "value"),
        Input(ids.FLEET_PROJECT, "value"),
        Input(ids.FLEET_STATUS, "value"),
        Input(ids.FLEET_INDEX, "data"),
        State({"type": "fleet-row", "run": ALL}, "id"),
    )
