"""The page that compares runs, at ``/compare?run=<id>&run=<id>``: overlaid signals, outcomes, configurations."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, Final
from urllib.parse import parse_qs

from dash import ALL, Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, NotFoundError
from dashboard.components.choices import choosable
from dashboard.components.compare.controls import controls
from dashboard.components.compare.tables import config_differences, legend, outcomes
from dashboard.components.page_frame import waiting
from dashboard.components.small_elements import address_writer, save_buttons
from dashboard.ids import compare as compare_ids
from dashboard.ids import frame as frame_ids
from dashboard.pages import run_choice
from dashboard.pages.compare import example
from dashboard.pages.compare.comparison import MAX_RUNS, ComparisonChoice, read_comparison
from dashboard.signal_definitions.lookup import define, unit_of

__all__ = ["compare_page", "register"]

SHOWN_CHARS: Final = 64  # of an id
GRAPH_CONFIG: Final = {"displayModeBar": False, "responsive": True}
HEIGHT: Final = {"height": 280}  # of a chart

# The usual values of the controls, by their names in the address; the address leaves them out.
USUAL: Final = {"run": None, "signal": None, "x": "step", "y": "linear", "lines": "runs", "smoothing": 0, "zoom": ""}
# Returns the zoom of the address and of all charts after a zoom in one chart; a new axis removes the zoom.
ZOOMED: Final = """(changes, align, zoom) => {
    const triggers = window.dash_clientside.callback_context.triggered;
    if (triggers.some((trigger) => trigger.prop_id === "compare-align.value")) return "";
    const made = triggers.map((trigger) => trigger.value || {});
    const zoomed = made.find((change) => "xaxis.range[0]" in change);
    if (zoomed) return `${zoomed["xaxis.range[0]"]},${zoomed["xaxis.range[1]"]}`;
    return zoom && made.some((change) => change["xaxis.autorange"]) ? "" : window.dash_clientside.no_update;
}"""
# Draws what a refresh has read, unless the reader has chosen something else since.
FOLLOWED: Final = f"""(read, charts, ...asked) => {{
    const {{ no_update, set_props }} = window.dash_clientside;
    const isAskedFor = read && JSON.stringify(read.asked) === JSON.stringify(asked);
    if (isAskedFor && read.gone) set_props("{compare_ids.BODY}", {{ children: read.gone }});
    const drawn = isAskedFor && !read.gone ? read : {{ figures: {{}} }};
    const figures = charts.map(({{ signal }}) => drawn.figures[signal] ?? no_update);
    return [figures, drawn.legend ?? no_update, drawn.outcomes ?? no_update, drawn.options ?? no_update];
}}"""


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
            dcc.Store(id=compare_ids.REFRESH),
            dcc.Store(id=compare_ids.FOLLOWED),
            dcc.Store(id=compare_ids.ZOOM, data=asked.get("zoom", [""])[0]),
            *_left_out(named, {run["id"] for run in chosen}),
            controls(offered, chosen, asked),
            html.Div(id=compare_ids.BODY, className="compare-body"),
        ],
    )


def _left_out(named: Sequence[str], known: Collection[str]) -> list[Component]:
    """Return a message about runs of the address that are not compared; empty if all are compared."""
    sentences = []
    if gone := [repr(run_id[:SHOWN_CHARS]) for run_id in named[:MAX_RUNS] if run_id not in known]:
        sentences.append(f"No run has the id {' or '.join(gone)}: it was deleted, or the address is mistyped.")
    if len(named) > MAX_RUNS:
        sentences.append(f"At most {MAX_RUNS} runs are compared: the first ones of the {len(named)} in this address.")
    return [html.P(" ".join(sentences), className="left-out", role="status")] if sentences else []


def register(app: Dash, api_url: str) -> None:
    """Register the drawing of the charts and tables, and the address that holds what is chosen."""

    async def draw(
        runs: list[str] | None,
        signals: list[str] | None,
        *asked: Any,  # noqa: ANN401 - the values of the other controls
    ) -> tuple[object, object]:
        if not runs:
            return example.example(), choosable(signals or [])
        try:
            read = await read_comparison(api_url, ComparisonChoice.of(runs, signals, *asked))
        except ApiError as error:
            return waiting("The runs cannot be compared", str(error)), choosable(signals or [])
        charts = [_chart(signal, figure) for signal, figure in read.figures().items()]
        beyond = f"{len(runs)} runs are chosen; the first {MAX_RUNS} are drawn." if len(runs) > MAX_RUNS else ""
        parts = [
            *([html.P(beyond, className="calm", role="status")] if beyond else []),
            legend(read.runs, align=read.choice.align, is_grouped=read.choice.is_grouped),
            html.Div(charts or html.P("No run has these signals.", className="calm"), className="compare-charts"),
            outcomes(read.runs, read.alerts),
            config_differences(read.runs),
        ]
        return parts, read.choosable_signals

    async def follow(
        _: int | None,
        offered: list[str] | None,
        *asked: Any,  # noqa: ANN401 - the values of the controls
    ) -> object:
        if not asked[0]:
            return no_update
        try:
            read = await read_comparison(api_url, ComparisonChoice.of(*asked))
        except NotFoundError as error:  # the page is drawn anew, without the run
            return {"asked": asked, "gone": waiting("The runs cannot be compared", str(error))}
        except ApiError:  # it is read again
            return no_update
        return {
            "asked": asked,
            "figures": read.figures(),
            "legend": legend(read.runs, align=read.choice.align, is_grouped=read.choice.is_grouped).children,
            "outcomes": outcomes(read.runs, read.alerts).children,
            # An open menu loses the typed text when its choices are set again.
            "options": None if read.choosable_signals == offered else read.choosable_signals,
        }

    controls_ = (
        (compare_ids.RUNS, "value"),
        (compare_ids.SIGNALS, "value"),
        (compare_ids.ALIGN, "value"),
        (compare_ids.SCALE, "value"),
        (compare_ids.GROUP, "value"),
        (compare_ids.SMOOTHING, "value"),
        (compare_ids.ZOOM, "data"),
    )
    chosen = [Input(*control) for control in controls_]
    app.callback(Output(compare_ids.BODY, "children"), Output(compare_ids.SIGNALS, "options"), *chosen)(draw)
    asked_for = [State(*control) for control in controls_]
    app.callback(
        Output(compare_ids.FOLLOWED, "data"),
        Input(compare_ids.REFRESH, "data"),
        State(compare_ids.SIGNALS, "options"),
        *asked_for,
        prevent_initial_call=True,
    )(follow)
    # The charts stay while their figures change, so that a zoom or a hover of the reader is not lost.
    app.clientside_callback(
        FOLLOWED,
        Output(compare_ids.chart(ALL), "figure"),
        Output(compare_ids.LEGEND, "children"),
        Output(compare_ids.OUTCOMES, "children"),
        Output(compare_ids.SIGNALS, "options", allow_duplicate=True),
        Input(compare_ids.FOLLOWED, "data"),
        State(compare_ids.chart(ALL), "id"),
        *asked_for,
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ZOOMED,
        Output(compare_ids.ZOOM, "data"),
        Input(compare_ids.chart(ALL), "relayoutData"),
        Input(compare_ids.ALIGN, "value"),
        State(compare_ids.ZOOM, "data"),
        prevent_initial_call=True,
    )
    example.register(app, api_url)
    run_choice.register(app, api_url, compare_ids.RUNS)
    app.clientside_callback(address_writer(USUAL), Output(compare_ids.BODY, "title"), *chosen)


def _chart(signal: str, figure: dict[str, object]) -> Component:
    graph = dcc.Graph(id=compare_ids.chart(signal), figure=figure, config=GRAPH_CONFIG, style=HEIGHT, responsive=True)
    place = html.Div(graph, style=HEIGHT)  # the tables below do not move when the chart is drawn
    unit = html.Span(unit_of(signal), className="unit", title=define(signal))
    head = html.Header(
        [html.H2(signal, title=define(signal)), unit, *save_buttons("png", "svg", "csv", chart=signal)],
        className="chart-head",
    )
    return html.Article([head, place], className="card compare-chart", **{"data-chart": signal})
