"""The run page, at ``/runs/<id>``: header, alerts and actions, and the figure, which grows with the run."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update, set_props
from dash.development.base_component import Component

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, NotFoundError
from dashboard.collector_client.types.runs import ExpectedRangeItem
from dashboard.components.forecast import forecast_parts
from dashboard.components.page_frame import message, waiting
from dashboard.components.run.header import gone_header
from dashboard.components.run.labels import notes_properties, run_labels
from dashboard.components.run.workspace import (
    left_out_text,
    panel_count,
    panel_places,
    smoothing_of,
    workspace,
    zoom_of,
)
from dashboard.components.small_elements import save_buttons
from dashboard.figures.curves.panel_view import PanelView
from dashboard.ids import alert as alert_ids
from dashboard.ids import frame as frame_ids
from dashboard.ids import run as run_ids
from dashboard.ids import workspace as workspace_ids
from dashboard.pages.run.page_data import read_run

__all__ = ["register", "run_page"]

HINT: Final = (
    "Drag to zoom the steps, double-click to see all. Click a step to reach its responses. Smoothing is set below."
)
WHOLE_HEIGHT: Final = {"height": "100%"}  # of the element around it
GRAPH_CONFIG: Final = {
    "displayModeBar": False,
    "doubleClick": "autosize",  # codespell:ignore
    "responsive": True,
}


async def run_page(api_url: str, run_id: str, query: str = "") -> Component:
    """Draw the page, or a message that says why it cannot be drawn; ``query`` may set the controls of the workspace."""
    asked = dict(parse_qsl(query))
    view = view_of(asked)
    try:
        read = await read_run(api_url, run_id, view=PanelView.read(view))
    except NotFoundError:
        return message(
            "No such run", f"No run has the id {run_id}. It may have been deleted, or the address is mistyped."
        )
    except ApiError as error:
        return waiting("The run cannot be shown", str(error))
    parts = html.Div(
        className="run-page",
        children=[
            dcc.Store(id=frame_ids.LIVE, data=read.live()),
            dcc.Store(id=run_ids.REFRESH),
            dcc.Store(id=run_ids.VIEW, data=view),
            dcc.Store(id=run_ids.VIEWED),
            dcc.Store(id=alert_ids.JUDGED),
            dcc.Store(id=run_ids.FORECAST_REFRESH),
            html.Section(id=run_ids.HEADER, className="card run-header", children=read.header()),
            run_labels(read.run),
            html.Section(
                className="card run-figure",
                **{"data-chart": f"{read.run['name']}-vital-signs"},
                children=[
                    # The place has a fixed height, so that the parts below do not move when Plotly draws the figure.
                    html.Div(
                        dcc.Graph(id=run_ids.FIGURE, figure=read.figure(), config=GRAPH_CONFIG, style=WHOLE_HEIGHT),
                        id=run_ids.FIGURE_PLACE,
                        style=read.style(),
                    ),
                    html.Div(
                        [
                            html.P(
                                HINT,
                                className="hint",
                            ),
                            html.A(className="step-responses", hidden=True),  # assets/step_responses.js
                            html.P(_explain_expected(read.expected), className="hint"),
                            html.Span(
                                save_buttons("png", "svg", "csv", chart="the vital signs"), className="save-choice"
                            ),
                        ],
                        className="below-chart",
                    ),
                ],
            ),
            html.Aside(id=run_ids.ALERTS, className="card run-alerts", children=read.aside()),
        ],
    )
    return html.Div(
        [
            parts,
            workspace(
                read.run.get("signals") or [], asked, project=read.run["project"], left_out=read.run.get("left_out")
            ),
        ]
    )


def register(app: Dash, api_url: str) -> None:
    """Register the refresh of the page: on a new phase, alert or action, a rewind, or twice the points.

    The forecast is read again while steps arrive, every ten seconds at most (assets/live.js).
    """

    async def refresh(_changed: object, live: dict[str, Any], view: Mapping[str, object] | None) -> tuple[object, ...]:
        try:
            read = await read_run(api_url, live["run"], view=PanelView.read(view if isinstance(view, dict) else {}))
        except NotFoundError:
            return gone_header(str(live.get("title", ""))), *(no_update,) * 7
        except ApiError:
            return (no_update,) * 8  # the page keeps what it shows; the bar shows that the connection is lost
        signals = read.run.get("signals") or []
        panels = (panel_count(signals), panel_places(signals)) if len(signals) != live["signals"] else (no_update,) * 2
        lost = left_out_text(read.run.get("left_out"))
        set_props(run_ids.LABEL_NOTES_SHOWN, notes_properties(read.run.get("notes")))
        return read.header(), read.aside(), read.figure(), read.style(), read.live(), lost, *panels

    async def draw_view(view: Mapping[str, object] | None, live: dict[str, Any]) -> object:
        if not isinstance(view, dict) or "run" not in live:
            return no_update
        try:
            read = await read_run(api_url, live["run"], view=PanelView.read(view))
        except ApiError:
            return no_update
        return {"figure": read.figure(), "view": view, "live": read.live()}

    async def forecast(_changed: object, live: dict[str, str]) -> object:
        try:
            async with ApiClient(api_url) as api:
                found, run = await asyncio.gather(api.runs.forecast(live["run"]), api.runs.get(live["run"]))
                return forecast_parts(found, phase=run["phase"])
        except ApiError:
            return no_update

    app.callback(
        Output(run_ids.FORECAST, "children"),
        Input(run_ids.FORECAST_REFRESH, "data"),
        State(frame_ids.LIVE, "data"),
        prevent_initial_call=True,
    )(forecast)
    app.callback(
        Output(run_ids.VIEWED, "data"),
        Input(run_ids.VIEW, "data"),
        State(frame_ids.LIVE, "data"),
        prevent_initial_call=True,
    )(draw_view)
    app.clientside_callback(
        ClientsideFunction("rlvitals", "vitalsViewed"),
        Output(run_ids.VIEWED, "modified_timestamp"),
        Input(run_ids.VIEWED, "data"),
        prevent_initial_call=True,
    )
    app.callback(
        Output(run_ids.HEADER, "children"),
        Output(run_ids.ALERTS, "children"),
        Output(run_ids.FIGURE, "figure"),
        Output(run_ids.FIGURE_PLACE, "style"),
        Output(frame_ids.LIVE, "data"),
        Output(workspace_ids.LEFT_OUT, "children"),
        Output(workspace_ids.COUNT, "children"),
        Output(workspace_ids.PLACES, "data-places"),
        Input(run_ids.REFRESH, "data"),
        State(frame_ids.LIVE, "data"),
        State(run_ids.VIEW, "data"),
        prevent_initial_call=True,
    )(refresh)


def _explain_expected(expected: Mapping[str, ExpectedRangeItem]) -> str:
    """Return an explanation of the pale areas behind the curves, or of their absence."""
    if not expected:
        return "Expected range of healthy runs: not observed - rlvitals calibrate learns it from 5 or more runs."
    runs = min(item["runs"] for item in expected.values())
    return f"Shaded: the range of 90 % of the values of {runs} or more healthy runs."


def view_of(query: Mapping[str, str]) -> dict[str, object]:
    """Return the view of the vital signs that an address states; their axis is always that of steps."""
    is_by_steps = query.get("x") in {None, "step", "log"}
    return {
        "smoothing": smoothing_of(query.get("smoothing")),
        "zoom": zoom_of(query.get("zoom")) if is_by_steps else None,
    }
