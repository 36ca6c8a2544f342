"""The callbacks of a run's workspace, which draw the panels that come into view, and export a signal."""

import asyncio
import csv
import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, cast

from dash import ClientsideFunction, Dash, Input, Output, State, no_update, set_props

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError
from dashboard.collector_client.types.alerts import AlertItem
from dashboard.collector_client.types.runs import ExpectedRangeItem, MarkItem, PhaseItem, RunDetail, SeriesItem
from dashboard.components.small_elements import spell
from dashboard.components.values import csv_cell
from dashboard.figures.curves.newest_attempt import not_replaced
from dashboard.figures.curves.panel_view import PanelView
from dashboard.figures.curves.token_axis import TokenAxis, token_signal
from dashboard.figures.signal import signal_figure
from dashboard.ids import frame as frame_ids
from dashboard.ids import workspace as workspace_ids
from dashboard.pages.run.zoomed_series import read_zoomed

__all__ = ["register"]

MAX_POINTS: Final = 600  # of one panel, about one point per pixel
MAX_PANELS: Final = 24  # of one request; the browser asks for the others next


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def draw(wanted: Mapping[str, object] | None, live: Mapping[str, str]) -> object:
        """Return a panel by signal; if the collector did not answer, ``unread`` says why and a drawn figure stays."""
        if not wanted or "run" not in live:
            return no_update
        signals = cast("list[str]", wanted["signals"])[:MAX_PANELS]
        view = PanelView.read(wanted)
        try:
            async with ApiClient(api_url) as api:
                tokens = await _read_tokens(api, live["run"]) if view.axis == "tokens" else None
                view = replace(view, axis="step") if view.axis == "tokens" and tokens is None else view
                series, means, phases, alerts, marks, expected = await asyncio.gather(
                    read_zoomed(api, live["run"], signals, view, MAX_POINTS, tokens),
                    read_zoomed(api, live["run"], signals, view, MAX_POINTS, tokens, statistic="mean"),
                    api.runs.phases(live["run"]),
                    api.alerts.all(live["run"]),
                    api.runs.marks(live["run"]),
                    api.runs.expected_ranges(live["run"], signals),
                )
                run = await api.runs.get(live["run"])  # an earlier one would not know the newest steps of the series
        except ApiError as error:
            return {signal: {"unread": str(error)} for signal in signals}
        return {
            signal: _panel(
                run, series.get(signal), means.get(signal), view, phases, alerts, marks, expected.get(signal), tokens
            )
            for signal in signals
        }

    async def export(asked: Mapping[str, str] | None, live: Mapping[str, str]) -> object:
        if not asked:
            return no_update
        signal = asked["signal"]
        try:
            async with ApiClient(api_url) as api:
                series = (await api.runs.series(live["run"], [signal], times=True)).get(signal)
        except ApiError as error:
            set_props(workspace_ids.EXPORT_STATE, {"children": f"No CSV of {signal} was saved. {error}"})
            return no_update
        set_props(workspace_ids.EXPORT_STATE, {"children": ""})
        name = f"{live['title']}-{signal}.csv".replace("/", "-")
        return {"content": await asyncio.to_thread(_csv, series), "filename": name, "type": "text/csv"}

    app.callback(
        Output(workspace_ids.DRAWN, "data"),
        Input(workspace_ids.WANTED, "data"),
        State(frame_ids.LIVE, "data"),
        prevent_initial_call=True,
    )(draw)
    app.callback(
        Output(workspace_ids.DOWNLOAD, "data"),
        Input(workspace_ids.EXPORTED, "data"),
        State(frame_ids.LIVE, "data"),
        prevent_initial_call=True,
    )(export)
    app.clientside_callback(
        ClientsideFunction("rlvitals", "configurePanels"),
        Output(workspace_ids.WORKSPACE, "title"),
        Input(workspace_ids.SEARCH, "value"),
        Input(workspace_ids.SMOOTHING, "value"),
        Input(workspace_ids.AXIS, "value"),
        Input(workspace_ids.SCALE, "value"),
        Input(workspace_ids.OUTLIERS, "value"),
        Input(workspace_ids.ZOOM, "data"),
        Input(workspace_ids.PLACES, "data-places"),
    )
    app.clientside_callback(
        ClientsideFunction("rlvitals", "panelsDrawn"),
        Output(workspace_ids.DRAWN, "modified_timestamp"),
        Input(workspace_ids.DRAWN, "data"),
        prevent_initial_call=True,
    )


async def _read_tokens(api: ApiClient, run_id: str) -> TokenAxis | None:
    """Read the tokens until each step; None where the trainer does not log them."""
    signal = token_signal((await api.runs.get(run_id)).get("signals") or [])
    found = {} if signal is None else await api.runs.series(run_id, [signal])
    return TokenAxis.of(found[signal]) if signal in found else None


def _panel(  # noqa: PLR0917 - what the API returns
    run: RunDetail,
    series: SeriesItem | None,
    means: SeriesItem | None,
    view: PanelView,
    phases: list[PhaseItem],
    alerts: list[AlertItem],
    marks: list[MarkItem],
    expected: ExpectedRangeItem | None,
    tokens: TokenAxis | None,
) -> dict[str, object]:
    """Return the data that assets/panels.js draws: the newest value and the figure, or why there is no figure."""
    if series is None:
        return {"problem": "not observed"}
    newest = not_replaced(series, run.get("last_step"))
    if view.axis == "time":  # on which the line would otherwise run backwards
        series = newest
        means = means and not_replaced(means, run.get("last_step"))
    if not series["steps"]:
        return {"problem": "not observed since the run went back"}
    figure = signal_figure(
        series,
        view=view,
        phases=phases,
        alerts=alerts,
        means=means if means and means["steps"] else None,
        marks=marks,
        expected=expected,
        tokens=tokens,
    )
    return {"newest": spell(newest["values"][-1]) if newest["values"] else "", "figure": figure}


def _csv(series: SeriesItem | None) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["step", "time", csv_cell(series["signal"]) if series else "value"])
    if series:
        rows.writerows(zip(series["steps"], series.get("times") or [], series["values"], strict=True))
    return text.getvalue()
