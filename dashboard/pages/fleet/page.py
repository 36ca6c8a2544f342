"""The fleet page, at ``/``: every run, the most urgent first."""

import asyncio
from typing import Final
from urllib.parse import parse_qsl

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update
from dash.dependencies import ALL
from dash.development.base_component import Component

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, UnreachableError
from dashboard.components.connect import connect_card
from dashboard.components.fleet.filters import MANY, FleetCounts, fleet_filters, fleet_summary
from dashboard.components.fleet.table import fleet_table, library_address
from dashboard.components.page_frame import waiting
from dashboard.ids import fleet as fleet_ids
from dashboard.ids import frame as frame_ids
from dashboard.pages.fleet.views import read_views

__all__ = ["fleet_page", "read_counts", "register"]

MAX_PROJECTS: Final = 1000  # one answer of the API; the search finds runs of other projects


async def fleet_page(api_url: str, connect_url: str, query: str = "") -> Component:
    """Draw the page; without runs it shows how to connect a trainer to ``connect_url``.

    ``query`` may set the filters, as the links of Prometheus' alerts do: ``project=...&run=...``.
    """
    asked = dict(parse_qsl(query))
    try:
        counts, views = await asyncio.gather(read_counts(api_url), read_views(api_url))
    except ApiError as error:
        return waiting("The fleet cannot be shown", str(error))
    return html.Div(
        className="fleet-page",
        children=[
            dcc.Store(id=frame_ids.LIVE, data={"page": "fleet", "title": "Fleet"}),
            html.H1("Runs", className="unseen"),
            dcc.Store(id=fleet_ids.REFRESH),
            dcc.Store(id=fleet_ids.REFRESHED),
            dcc.Store(id=fleet_ids.READ),
            dcc.Store(id=fleet_ids.COUNT, data=counts.total),
            dcc.Store(id=fleet_ids.CSV_WANTED),
            dcc.Download(id=fleet_ids.DOWNLOAD),
            dcc.Store(id=fleet_ids.COLLAPSED),
            dcc.Store(id=fleet_ids.TABLE_DESCRIPTION, data=fleet_table()),
            dcc.Store(id=fleet_ids.LIBRARY, data=library_address()),
            dcc.Store(id=fleet_ids.VIEWS, data=views),
            dcc.Store(id=fleet_ids.VIEW_TO_SAVE),
            dcc.Store(id=fleet_ids.VIEW_TO_DELETE),
            dcc.Store(id=fleet_ids.CURVES_WANTED),
            dcc.Store(id=fleet_ids.CURVES),
            fleet_filters(counts, views, project=asked.get("project"), text=asked.get("run", "")),
            html.P(id=fleet_ids.LEFT_OUT, className="left-out", role="status", hidden=True),
            html.Div(
                className="fleet-counts",
                children=[
                    html.Div(
                        id=fleet_ids.FLEET,
                        children=fleet_summary(counts) if counts.total else connect_card(connect_url),
                    ),
                    html.Span(id=fleet_ids.MATCHES, className="hint", role="status"),
                    html.Div(
                        className="chosen-runs",
                        children=[
                            html.Span(id=fleet_ids.CHOSEN, role="status"),
                            html.Button("Select none", id=fleet_ids.CHOOSE_NONE, className="quiet", hidden=True),
                            html.Button(
                                "Compare", id=fleet_ids.COMPARE, className="quiet", title="Compare the selected runs"
                            ),
                        ],
                    ),
                ],
            ),
            html.Div(id=fleet_ids.TABLE, className="fleet-table"),
            html.P("No run matches.", id=fleet_ids.NONE_MATCH, className="none-match", hidden=True),
        ],
    )


def register(app: Dash, api_url: str) -> None:
    """Register the refresh of the counts when runs or alerts change, and the controls' functions in the browser.

    If the page had no run, it opens the first run that arrives.
    """

    async def refresh(
        changed: object, shown: int | None, offered: list[str] | None, project: str | None
    ) -> tuple[object, ...]:
        if changed is None:  # Dash calls it when the page is drawn, because the address was there before
            return (no_update,) * 5
        try:
            counts = await read_counts(api_url)
        except UnreachableError:
            return (no_update,) * 5  # the page keeps what it shows; the bar shows that the connection is lost
        except ApiError as error:
            return waiting("The fleet cannot be shown", str(error)), *(no_update,) * 4
        if not counts.total and not shown:  # the page says how to connect
            return (no_update,) * 5
        address = f"/runs/{counts.only_run}" if counts.only_run and not shown else no_update
        projects = counts.projects(project)
        return (
            fleet_summary(counts),
            no_update if counts.total == shown else counts.total,
            counts.total < MANY,
            no_update if projects == offered else projects,
            address,
        )

    async def play_sample(clicks: int | None) -> object:
        if not clicks:  # the button was drawn and not clicked
            return no_update
        try:
            async with ApiClient(api_url) as api:
                await api.samples.play()
        except ApiError as error:
            return f"It cannot be played: {error}"
        return "It opens here in a moment."

    app.callback(
        Output(fleet_ids.CONNECT_SAMPLE_STATE, "children"),
        Input(fleet_ids.CONNECT_SAMPLE, "n_clicks"),
        prevent_initial_call=True,
    )(play_sample)
    app.callback(
        Output(fleet_ids.FLEET, "children"),
        Output(fleet_ids.COUNT, "data"),
        Output(fleet_ids.FILTERS, "hidden"),
        Output(fleet_ids.PROJECT, "options"),
        Output(frame_ids.ADDRESS, "pathname"),
        Input(fleet_ids.REFRESH, "data"),
        State(fleet_ids.COUNT, "data"),
        State(fleet_ids.PROJECT, "options"),
        State(fleet_ids.PROJECT, "value"),
        prevent_initial_call=True,
    )(refresh)
    app.clientside_callback(
        "(chosen, panels) => panels.map((panel) => panel.name !== chosen)",
        Output({"type": "connect-panel", "name": ALL}, "hidden"),
        Input(fleet_ids.CONNECT_WAY, "value"),
        State({"type": "connect-panel", "name": ALL}, "id"),
    )
    _register_table(app)


def _register_table(app: Dash) -> None:
    """Register the functions of assets/fleet.js in the browser."""
    app.clientside_callback(
        ClientsideFunction("rlvitals", "arrangeFleet"),
        Output(fleet_ids.TABLE, "title"),
        Input(fleet_ids.COUNT, "data"),
        Input(fleet_ids.TEXT, "value"),
        Input(fleet_ids.PROJECT, "value"),
        Input(fleet_ids.STATUS, "value"),
        Input(fleet_ids.GROUP, "value"),
        Input(fleet_ids.ARCHIVED, "value"),
        Input(fleet_ids.CURVE, "value"),
        Input(fleet_ids.COLLAPSED, "data"),
        State(fleet_ids.TABLE_DESCRIPTION, "data"),
        State(fleet_ids.LIBRARY, "data"),
        State(fleet_ids.VIEWS, "data"),
        State(fleet_ids.GROUP, "options"),
        State(fleet_ids.STATUS, "options"),
    )
    app.clientside_callback(
        ClientsideFunction("rlvitals", "openFleetView"),
        Output(fleet_ids.FORGET, "hidden"),
        Input(fleet_ids.VIEW, "value"),
        State(fleet_ids.VIEWS, "data"),
    )
    for name, output, input_, *state in (
        ("chooseFleetColumns", Output(fleet_ids.COLUMNS, "title"), Input(fleet_ids.COLUMNS, "value")),
        (
            "saveFleetView",
            Output(fleet_ids.VIEW_TO_SAVE, "data"),
            Input(fleet_ids.SAVE, "n_clicks"),
            State(fleet_ids.VIEWS, "data"),
        ),
        (
            "forgetFleetView",
            Output(fleet_ids.VIEW_TO_DELETE, "data"),
            Input(fleet_ids.FORGET, "n_clicks"),
        ),
        ("exportFleet", Output(fleet_ids.CSV_WANTED, "data"), Input(fleet_ids.CSV, "n_clicks")),
        ("compareChosen", Output(fleet_ids.COMPARE, "n_clicks_timestamp"), Input(fleet_ids.COMPARE, "n_clicks")),
        ("chooseNone", Output(fleet_ids.CHOOSE_NONE, "n_clicks_timestamp"), Input(fleet_ids.CHOOSE_NONE, "n_clicks")),
        ("readFleetAgain", Output(fleet_ids.REFRESHED, "data"), Input(fleet_ids.REFRESH, "data")),
        ("toggleWall", Output(fleet_ids.WALL, "n_clicks_timestamp"), Input(fleet_ids.WALL, "n_clicks")),
    ):
        app.clientside_callback(ClientsideFunction("rlvitals", name), output, input_, *state, prevent_initial_call=True)


async def read_counts(api_url: str) -> FleetCounts:
    """Count the runs by status and by project."""
    async with ApiClient(api_url) as api:
        by_status, by_project, (runs, total) = await asyncio.gather(
            api.runs.groups("status", {"archived": "false"}),
            api.runs.groups("project", {}, most=MAX_PROJECTS),
            api.runs.part({}, sort="started_at", limit=1),
        )
    return FleetCounts(by_status, by_project, total, runs[0]["id"] if total == 1 else None)
