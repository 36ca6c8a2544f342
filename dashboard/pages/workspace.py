"""The callbacks of a run's workspace: draw the panels that come into view, and export a signal."""

import asyncio
import csv
import io
from collections.abc import Mapping
from typing import Final, cast

from dash import ALL, ClientsideFunction, Dash, Input, Output, State, ctx, html, no_update, set_props
from dash.development.base_component import Component

from dashboard import ids
from dashboard.api_client import ApiClient, ApiError
from dashboard.api_types import AlertItem, ExpectedRangeItem, MarkItem, PhaseItem, SeriesItem
from dashboard.components.workspace import panel_body
from dashboard.figures.signal import View, merged, signal_figure

__all__ = ["register"]

MAX_POINTS: Final = 600  # of one panel, about one point per pixel
GRAPH_CONFIG: Final = {
    "displayModeBar": False,
    "doubleClick": "autosize",  # codespell:ignore
    "responsive": True,
}
MAX_PANELS: Final = 24  # of one request; the browser asks for the others next


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def draw(wanted: Mapping[str, object] | None, live: Mapping[str, str]) -> object:
        if not wanted or "run" not in live:
            return no_update
        signals = cast("list[str]", wanted["signals"])[:MAX_PANELS]
        view = View.read(wanted)
        try:
            async with ApiClient(api_url) as api:
                series, phases, alerts, marks, expected = await asyncio.gather(
                    _read(api, live["run"], signals, view),
                    api.phases(live["run"]),
                    api.alerts(live["run"]),
                    api.marks(live["run"]),
                    api.expected_ranges(live["run"], signals),
                )
        except ApiError as error:
            for signal in signals:
                set_props(ids.panel(signal), {"children": html.P(str(error), className="panel-error")})
            return {"failed": signals}
        for signal in signals:
            body = _body(signal, series.get(signal), view, phases, alerts, marks, expected.get(signal))
            set_props(ids.panel(signal), {"children": body})
        return {"drawn": signals}

    async def export(_clicks: list[int | None], live: Mapping[str, str]) -> object:
        chosen = ctx.triggered_id
        if not any(_clicks) or not chosen:  # the buttons were drawn and not clicked
            return no_update
        async with ApiClient(api_url) as api:
            series = (await api.series(live["run"], [chosen["signal"]], times=True)).get(chosen["signal"])
        name = f"{live['title']}-{chosen['signal']}.csv".replace("/", "-")
        return {"content": _csv(series), "filename": name, "type": "text/csv"}

    app.callback(
        Output(ids.WORKSPACE_DRAWN, "data"),
        Input(ids.WORKSPACE_WANTED, "data"),
        State(ids.LIVE, "data"),
        prevent_initial_call=True,
    )(draw)
    app.callback(
        Output(ids.WORKSPACE_DOWNLOAD, "data"),
        Input({"type": "panel-csv", "signal": ALL}, "n_clicks"),
        State(ids.LIVE, "data"),
        prevent_initial_call=True,
    )(export)
    app.clientside_callback(
        ClientsideFunction("rlvitals", "configurePanels"),
        Output(ids.WORKSPACE, "title"),
        Input(ids.WORKSPACE_SEARCH, "value"),
        Input(ids.WORKSPACE_SMOOTHING, "value"),
        Input(ids.WORKSPACE_AXIS, "value"),
        Input(ids.WORKSPACE_SCALE, "value"),
        Input(ids.WORKSPACE_ZOOM, "data"),
    )
    app.clientside_callback(
        ClientsideFunction("rlvitals", "panelsDrawn"),
        Output(ids.WORKSPACE_DRAWN, "modified_timestamp"),
        Input(ids.WORKSPACE_DRAWN, "data"),
        prevent_initial_call=True,
    )


async def _read(api: ApiClient, run_id: str, signals: list[str], view: View) -> dict[str, SeriesItem]:
    """Read the signals, thinned as a whole, and finer in the interval that is zoomed to."""
    is_timed = view.axis == "time"
    series = await api.series(run_id, signals, max_points=MAX_POINTS, times=is_timed)
    steps = next((held for item in series.values() if (held := view.steps_in(item))), None)
    if steps is None:
        return series
    fine = await api.series(run_id, signals, max_points=2 * MAX_POINTS, steps=steps, times=is_timed)
    return {name: merged(item, fine[name]) if name in fine else item for name, item in series.items()}


def _body(  # noqa: PLR0917 - what the API returns
    signal: str,
    series: SeriesItem | None,
    view: View,
    phases: list[PhaseItem],
    alerts: list[AlertItem],
    marks: list[MarkItem],
    expected: ExpectedRangeItem | None,
) -> Component:
    if series is None:
        return html.P("not observed", className="panel-error")
    figure = signal_figure(series, view=view, phases=phases, alerts=alerts, marks=marks, expected=expected)
    return panel_body(signal, series, figure, GRAPH_CONFIG)


def _csv(series: SeriesItem | None) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["step", "time", series["signal"] if series else "value"])
    if series:
        rows.writerows(zip(series["steps"], series.get("times") or [], series["values"], strict=True))
    return text.getvalue()
