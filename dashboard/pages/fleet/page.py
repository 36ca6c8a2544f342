"""The fleet page, at ``/``: every run, the most urgent first."""

import asyncio
from urllib.parse import parse_qsl

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update
from dash.dependencies import ALL
from dash.development.base_component import Component

from dashboard import ids
from dashboard.api.client import ApiClient
from dashboard.api.errors import ApiError
from dashboard.api.types.alerts import AlertItem
from dashboard.api.types.runs import RunItem
from dashboard.components.connect import connect_card
from dashboard.components.fleet.filters import MANY, fleet_filters, fleet_summary
from dashboard.components.fleet.rows import fleet_rows
from dashboard.components.fleet.table import fleet_table, library_address
from dashboard.components.page_frame import waiting
from dashboard.pages.fleet.views import read_views

__all__ = ["fleet_page", "read_fleet", "register"]


async def fleet_page(api_url: str, connect_url: str, query: str = "") -> Component:
    """Draw the page; without runs it shows how to connect a trainer to ``connect_url``.

    ``query`` may set the filters, as the links of Prometheus' alerts do: ``project=...&run=...``.
    """
    asked = dict(parse_qsl(query))
    try:
        (runs, alerts), views = await asyncio.gather(read_fleet(api_url), read_views(api_url))
    except ApiError as error:
        return waiting("The fleet cannot be shown", str(error))
    return html.Div(
        className="fleet-page",
        children=[
            dcc.Store(id=ids.LIVE, data={"page": "fleet", "title": "Fleet"}),
            html.H1("Runs", className="unseen"),
            dcc.Store(id=ids.FLEET_REFRESH),
            dcc.Store(id=ids.FLEET_ROWS, data=fleet_rows(runs, alerts)),
            dcc.Store(id=ids.FLEET_COLLAPSED),
            dcc.Store(id=ids.FLEET_TABLE_DESCRIPTION, data=fleet_table()),
            dcc.Store(id=ids.FLEET_LIBRARY, data=library_address()),
            dcc.Store(id=ids.FLEET_VIEWS, data=views),
            dcc.Store(id=ids.FLEET_VIEW_TO_SAVE),
            dcc.Store(id=ids.FLEET_CURVES_WANTED),
            dcc.Store(id=ids.FLEET_CURVES),
            fleet_filters(runs, views, project=asked.get("project"), text=asked.get("run", "")),
            html.Div(id=ids.FLEET, children=fleet_summary(runs, alerts) if runs else connect_card(connect_url)),
            html.Div(id=ids.FLEET_TABLE, className="fleet-table"),
            html.P("No run matches.", id=ids.FLEET_NONE_MATCH, className="none-match", hidden=True),
        ],
    )


def register(app: Dash, api_url: str) -> None:
    """Register the refresh of the rows when runs or alerts change; what the controls do happens in the browser.

    Where the page had no run, the first one opens.
    """

    async def refresh(changed: object, shown: list[object] | None) -> tuple[object, ...]:
        if changed is None:  # Dash calls it when the page is drawn, because the address was there before
            return (no_update,) * 4
        try:
            runs, alerts = await read_fleet(api_url)
        except ApiError as error:
            return waiting("The fleet cannot be shown", str(error)), *(no_update,) * 3
        if not runs:
            return (no_update,) * 4
        is_first = not shown and len(runs) == 1
        address = f"/runs/{runs[0]['id']}" if is_first else no_update
        return fleet_summary(runs, alerts), fleet_rows(runs, alerts), len(runs) < MANY, address

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
        Output(ids.FLEET_ROWS, "data"),
        Output(ids.FLEET_FILTERS, "hidden"),
        Output(ids.ADDRESS, "pathname"),
        Input(ids.FLEET_REFRESH, "data"),
        State(ids.FLEET_ROWS, "data"),
        prevent_initial_call=True,
    )(refresh)
    app.clientside_callback(
        "(chosen, panels) => panels.map((panel) => panel.name !== chosen)",
        Output({"type": "connect-panel", "name": ALL}, "hidden"),
        Input(ids.CONNECT_WAY, "value"),
        State({"type": "connect-panel", "name": ALL}, "id"),
    )
    _register_table(app)


def _register_table(app: Dash) -> None:
    """Register what assets/fleet.js does in the browser."""
    app.clientside_callback(
        ClientsideFunction("rlvitals", "arrangeFleet"),
        Output(ids.FLEET_NONE_MATCH, "hidden"),
        Input(ids.FLEET_ROWS, "data"),
        Input(ids.FLEET_TEXT, "value"),
        Input(ids.FLEET_PROJECT, "value"),
        Input(ids.FLEET_STATUS, "value"),
        Input(ids.FLEET_GROUP, "value"),
        Input(ids.FLEET_ARCHIVED, "value"),
        Input(ids.FLEET_CURVE, "value"),
        Input(ids.FLEET_COLLAPSED, "data"),
        State(ids.FLEET_TABLE_DESCRIPTION, "data"),
        State(ids.FLEET_LIBRARY, "data"),
        State(ids.FLEET_VIEWS, "data"),
    )
    app.clientside_callback(
        ClientsideFunction("rlvitals", "openFleetView"),
        Output(ids.FLEET_FORGET, "hidden"),
        Input(ids.FLEET_VIEW, "value"),
        State(ids.FLEET_VIEWS, "data"),
    )
    for name, output, input_, *state in (
        ("chooseFleetColumns", Output(ids.FLEET_COLUMNS, "title"), Input(ids.FLEET_COLUMNS, "value")),
        (
            "saveFleetView",
            Output(ids.FLEET_VIEW_TO_SAVE, "data"),
            Input(ids.FLEET_SAVE, "n_clicks"),
            State(ids.FLEET_VIEWS, "data"),
        ),
        ("exportFleet", Output(ids.FLEET_CSV, "n_clicks_timestamp"), Input(ids.FLEET_CSV, "n_clicks")),
        ("toggleWall", Output(ids.FLEET_WALL, "n_clicks_timestamp"), Input(ids.FLEET_WALL, "n_clicks")),
    ):
        app.clientside_callback(ClientsideFunction("rlvitals", name), output, input_, *state, prevent_initial_call=True)


async def read_fleet(api_url: str) -> tuple[list[RunItem], list[AlertItem]]:
    """Read all runs and the alerts that fire."""
    async with ApiClient(api_url) as api:
        runs, alerts = await asyncio.gather(api.runs(), api.alerts(state="firing"))
    return runs, alerts
