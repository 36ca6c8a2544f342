"""The page that compares runs, at ``/compare?run=<id>&run=<id>``: overlaid signals, outcomes, configurations."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qs

from dash import ALL, Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from dashboard.api.client import ApiClient
from dashboard.api.errors import ApiError
from dashboard.api.types.alerts import AlertItem
from dashboard.api.types.runs import RunDetail
from dashboard.components.choices import choosable
from dashboard.components.compare.controls import controls
from dashboard.components.compare.tables import config_differences, legend, outcomes
from dashboard.components.page_frame import message, waiting
from dashboard.components.run.workspace import zoom_of
from dashboard.components.run_choice import run_options
from dashboard.components.small_elements import remembering, save_buttons
from dashboard.figures.overlay import ALIGNMENTS, Compared, overlay_figure, steps_within
from dashboard.figures.signal import merged
from dashboard.ids import compare as compare_ids
from dashboard.ids import frame as frame_ids
from dashboard.pages import run_choice
from dashboard.signal_definitions.lookup import define, unit_of

__all__ = ["compare_page", "register"]

VITALS: Final = ("reward/mean", "likelihood/correct", "entropy/mean", "grad/norm")
MAX_RUNS: Final = 20
MAX_POINTS: Final = 800
SHOWN_CHARS: Final = 64  # of an id
EXAMPLE_READS: Final = 100
EXAMPLE_PAUSE_SECONDS: Final = 0.25
GRAPH_CONFIG: Final = {"displayModeBar": False, "responsive": True}


# What the address leaves out, by the names of the controls in it.
USUAL: Final = {"run": None, "signal": None, "x": "step", "y": "linear", "lines": "runs", "smoothing": 0, "zoom": ""}
# What a zoom in one chart is in the address and in all charts; another axis has no zoom.
ZOOMED: Final = """(changes, align, zoom) => {
    const trigger = window.dash_clientside.callback_context.triggered[0] || {};
    const change = trigger.value;
    if (trigger.prop_id === "compare-align.value") return "";
    if (change && "xaxis.range[0]" in change) return `${change["xaxis.range[0]"]},${change["xaxis.range[1]"]}`;
    return change && change["xaxis.autorange"] && zoom ? "" : window.dash_clientside.no_update;
}"""


async def compare_page(api_url: str, query: str = "") -> Component:
    """Draw the controls; the charts follow by a callback. ``query`` names runs and signals."""
    asked = parse_qs(query)
    named = list(dict.fromkeys(asked.get("run", [])))
    try:
        async with ApiClient(api_url) as api:
            offered, chosen = await asyncio.gather(
                api.runs.matching(limit=run_choice.OFFERED),
                api.runs.some(named[:MAX_RUNS]),
            )
    except ApiError as error:
        return waiting("The runs cannot be shown", str(error))
    return html.Div(
        className="compare-page",
        children=[
            dcc.Store(id=frame_ids.LIVE, data={"page": "compare", "title": "Compare"}),
            dcc.Store(id=compare_ids.ZOOM, data=asked.get("zoom", [""])[0]),
            *_left_out(named, {run["id"] for run in chosen}),
            controls(offered, chosen, asked),
            html.Div(id=compare_ids.BODY, className="compare-body"),
        ],
    )


def _left_out(named: Sequence[str], known: Collection[str]) -> list[Component]:
    """Say which runs of the address are not compared; nothing where all are."""
    sentences = []
    if gone := [repr(run_id[:SHOWN_CHARS]) for run_id in named[:MAX_RUNS] if run_id not in known]:
        sentences.append(f"No run has the id {' or '.join(gone)}: it was deleted, or the address is mistyped.")
    if len(named) > MAX_RUNS:
        sentences.append(f"At most {MAX_RUNS} runs are compared, the first of the {len(named)} of this address.")
    return [html.P(" ".join(sentences), className="left-out", role="status")] if sentences else []


def register(app: Dash, api_url: str) -> None:
    """Register the drawing of the charts and tables, and the address that holds what is chosen."""

    async def draw(  # noqa: PLR0917 - Dash passes inputs by their places
        chosen: list[str] | None,
        signals: list[str] | None,
        align: str,
        scale: str,
        lines: str,
        smoothing: float,
        zoomed: str | None,
    ) -> tuple[object, list[str]]:
        if not chosen:
            return _example(), choosable(signals or [])
        names = signals or list(VITALS)
        align = align if align in ALIGNMENTS else "step"
        ends = zoom_of(zoomed if isinstance(zoomed, str) else None)
        zoom = None if ends is None else (ends[0], ends[1])
        try:
            runs, alerts, known = await _read(api_url, chosen[:MAX_RUNS], names, align, zoom)
        except ApiError as error:
            return message("The runs cannot be compared", str(error)), choosable(signals or [])
        charts = [
            _chart(
                signal,
                overlay_figure(
                    signal,
                    runs,
                    align=align,
                    smoothing=min(max(smoothing or 0.0, 0.0), 0.99),
                    is_log=scale == "log",
                    is_grouped=lines == "seeds",
                    zoom=zoom,
                ),
            )
            for signal in names
            if any(signal in item.series for item in runs)
        ]
        beyond = f"{len(chosen)} runs are chosen; the first {MAX_RUNS} are drawn." if len(chosen) > MAX_RUNS else ""
        parts = [
            *([html.P(beyond, className="calm", role="status")] if beyond else []),
            legend(runs),
            html.Div(charts or html.P("No run has these signals.", className="calm"), className="compare-charts"),
            outcomes(runs, alerts),
            config_differences(runs),
        ]
        return parts, choosable(known)

    async def add_example(clicks: int | None) -> tuple[object, object, object]:
        if not clicks:  # the button was drawn and not clicked
            return no_update, no_update, no_update
        try:
            async with ApiClient(api_url) as api:
                chosen = await _add_example(api)
                options = run_options(await api.runs.matching(limit=run_choice.OFFERED), chosen)
            return options, [run["id"] for run in chosen], no_update
        except ApiError as error:
            return no_update, no_update, f"The example cannot be added. {error}"

    app.callback(
        Output(compare_ids.RUNS, "options"),
        Output(compare_ids.RUNS, "value"),
        Output(compare_ids.EXAMPLE_STATE, "children"),
        Input(compare_ids.EXAMPLE, "n_clicks"),
        prevent_initial_call=True,
    )(add_example)
    controls_ = (
        Input(compare_ids.RUNS, "value"),
        Input(compare_ids.SIGNALS, "value"),
        Input(compare_ids.ALIGN, "value"),
        Input(compare_ids.SCALE, "value"),
        Input(compare_ids.GROUP, "value"),
        Input(compare_ids.SMOOTHING, "value"),
        Input(compare_ids.ZOOM, "data"),
    )
    app.callback(Output(compare_ids.BODY, "children"), Output(compare_ids.SIGNALS, "options"), *controls_)(draw)
    app.clientside_callback(
        ZOOMED,
        Output(compare_ids.ZOOM, "data"),
        Input(compare_ids.chart(ALL), "relayoutData"),
        Input(compare_ids.ALIGN, "value"),
        State(compare_ids.ZOOM, "data"),
        prevent_initial_call=True,
    )
    run_choice.register(app, api_url, compare_ids.RUNS)
    app.clientside_callback(remembering(USUAL), Output(compare_ids.BODY, "title"), *controls_)


async def _read(
    api_url: str, run_ids: Sequence[str], signals: Sequence[str], align: str, zoom: tuple[float, float] | None
) -> tuple[list[Compared], dict[str, list[AlertItem]], list[str]]:
    """Read the runs, finer where it is zoomed to, their alerts by the runs' ids, and the names of all their signals."""
    async with ApiClient(api_url) as api:
        read = await asyncio.gather(
            *(
                asyncio.gather(
                    api.runs.get(run_id),
                    api.runs.phases(run_id),
                    api.runs.series(run_id, signals, max_points=MAX_POINTS, times=True),
                    api.alerts.all(run_id),
                )
                for run_id in run_ids
            )
        )
        runs = [Compared(run, phases, series, place) for place, (run, phases, series, _) in enumerate(read)]
        if zoom is not None:
            runs = list(await asyncio.gather(*(_finer(api, run, signals, align, zoom) for run in runs)))
    names = sorted({name for run, *_ in read for name in run.get("signals") or []})
    return runs, {run["id"]: alerts for run, _, _, alerts in read}, names


async def _finer(
    api: ApiClient, compared: Compared, signals: Sequence[str], align: str, zoom: tuple[float, float]
) -> Compared:
    """Return the run with more points in an interval of the axis."""
    steps = steps_within(compared, align, zoom)
    if steps is None:
        return compared
    fine = await api.runs.series(compared.run["id"], signals, max_points=MAX_POINTS, steps=steps, times=True)
    series = {name: merged(item, fine[name]) if name in fine else item for name, item in compared.series.items()}
    return replace(compared, series=series)


async def _add_example(api: ApiClient) -> list[RunDetail]:
    """Add the example, wait a little until its steps can be read, and return its runs."""
    last_steps = await api.samples.add_ablation()
    for _ in range(EXAMPLE_READS):
        runs = await api.runs.some(list(last_steps))
        reached = {run["id"]: run["last_step"] for run in runs}
        if all(reached.get(run_id) == step for run_id, step in last_steps.items()):
            break
        await asyncio.sleep(EXAMPLE_PAUSE_SECONDS)
    return runs


def _example() -> Component:
    """Return what the page shows while nothing is chosen."""
    return html.Div(
        [
            html.P("Choose two runs or more."),
            html.P(
                [
                    html.Button("Show me an example", id=compare_ids.EXAMPLE, className="button"),
                    html.Span(id=compare_ids.EXAMPLE_STATE, className="aside", role="status"),
                ],
                className="sample",
            ),
            html.P(
                "Six recorded runs of project samples: GRPO without LLDS and with λ = 0.01 and 0.1, two seeds each.",
                className="aside",
            ),
        ],
        className="calm card none-match",
    )


def _chart(signal: str, figure: dict[str, object]) -> Component:
    graph = dcc.Graph(
        id=compare_ids.chart(signal), figure=figure, config=GRAPH_CONFIG, style={"height": 280}, responsive=True
    )
    unit = html.Span(unit_of(signal), className="unit", title=define(signal))
    head = html.Header(
        [html.H2(signal, title=define(signal)), unit, *save_buttons("png", "svg", "csv", chart=signal)],
        className="chart-head",
    )
    return html.Article([head, graph], className="card compare-chart", **{"data-chart": signal})
