"""The page of a run's sampled responses, at ``/runs/<id>/responses``, token by token."""

import asyncio
from typing import Any, Final
from urllib.parse import parse_qsl

from dash import Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, NotFoundError
from dashboard.collector_client.types.runs import shown_name
from dashboard.components.page_frame import message, waiting
from dashboard.components.responses.listing import (
    USUAL,
    left_out,
    listing,
    no_steps,
    read_steps,
    response_controls,
    spread_choice,
)
from dashboard.components.responses.pairs import pairs_listing
from dashboard.components.small_elements import address_writer, save_buttons
from dashboard.figures.responses.question_displacement import question_displacements, question_figure, windows_of
from dashboard.figures.responses.spread import SPREADS, is_chosen, spread_figure
from dashboard.ids import frame as frame_ids
from dashboard.ids import responses as response_ids

__all__ = ["register", "responses_page"]


GRAPH_CONFIG: Final = {"displayModeBar": False, "responsive": True}
SPREAD_HEIGHT: Final = {"height": 130}
MAX_SAMPLED: Final = 200  # of each time; the most that the collector returns at once
QUESTIONS: Final = (
    "Nats per token by which the correct responses to each question rose or fell, sorted, in the first, the middle "
    "and the last fifth of the run (Figure 3 of arXiv 2512.04220). Randomly sampled responses only."
)
SPREAD: Final = "The responses below. A click on a bar shows only the responses of that bar; a second click shows all."
NOT_OBSERVED: Final = (
    "Not observed. It needs correct responses that are sampled at random and have a displacement: "
    "rollouts with old_logprobs."
)


async def responses_page(api_url: str, run_id: str, query: str = "") -> Component:
    """Draw the controls with the values of the query; a callback draws the responses."""
    try:
        async with ApiClient(api_url) as api:
            run = await api.runs.get(run_id)
    except NotFoundError:
        return message("No such run", f"No run has the id {run_id}.")
    except ApiError as error:
        return waiting("The responses cannot be shown", str(error))
    crumbs = [dcc.Link("All runs", href="/"), dcc.Link(shown_name(run), href=f"/runs/{run_id}"), html.Span("responses")]
    asked = dict(parse_qsl(query))
    controls = response_controls(asked, last_step=run.get("last_step") or 0)
    return html.Div(
        className="responses-page",
        children=[
            dcc.Store(
                id=frame_ids.LIVE, data={"page": "responses", "title": f"Responses of {shown_name(run)}", "run": run_id}
            ),
            html.Section(
                [
                    html.Nav(crumbs, className="crumbs", **{"aria-label": "breadcrumbs"}),
                    html.H1("Sampled responses"),
                    html.P(id=response_ids.GONE),  # assets/live.js writes into it
                    *left_out(asked),
                    controls,
                ],
                className="card compare-controls",
            ),
            html.Section(
                className="card explains",
                **{"data-chart": f"{run['name']}-displacement-over-questions"},
                children=[
                    html.Div(
                        [
                            html.Button(
                                "Draw displacement over questions", id=response_ids.QUESTIONS_DRAW, className="quiet"
                            ),
                            html.P(QUESTIONS, className="hint"),
                            *save_buttons("png", "svg", "csv", chart="the displacements"),
                        ],
                        className="below-chart",
                    ),
                    html.Div(id=response_ids.QUESTIONS),
                ],
            ),
            html.Section(
                [
                    spread_choice(asked.get("spread")),
                    html.Div(
                        dcc.Graph(id=response_ids.SPREAD, config=GRAPH_CONFIG, style=SPREAD_HEIGHT, responsive=True),
                        style=SPREAD_HEIGHT,  # the list below does not move when the chart is drawn
                    ),
                    html.P(SPREAD, className="aside"),
                ],
                id=response_ids.SPREAD_CARD,
                hidden=True,  # until there are responses
                className="card explains",
                **{"data-chart": f"{run['name']}-spread"},
            ),
            html.Div(id=response_ids.LIST, className="responses-list"),
        ],
    )


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks that draw the chosen responses."""

    async def draw(  # noqa: PLR0917 - Dash passes inputs by their places
        first_text: object,
        last_text: object,
        correct: str,
        kind: str,
        order: str,
        measure: str,
        spread: str,
        selected: dict[str, Any] | None,
        live: dict[str, str],
    ) -> tuple[object, object, object, object]:
        of = spread if spread in SPREADS else "reward"
        try:
            first, last = read_steps(first_text, last_text)
        except ValueError as error:
            return no_steps(str(error)), no_update, None, True
        try:
            async with ApiClient(api_url) as api:
                if order == "pairs":
                    pairs = await api.responses.pairs(live["run"], from_step=first, to_step=last)
                    return pairs_listing(pairs, measure=measure), no_update, None, True
                responses = await api.responses.newest(
                    live["run"],
                    from_step=first,
                    to_step=last,
                    correct={"true": True, "false": False}.get(correct),
                    kind=None if kind == "all" else kind,
                )
        except ApiError as error:
            return waiting("The responses cannot be shown", str(error)), no_update, no_update, True
        if ctx.triggered_id == response_ids.SPREAD:
            chosen = [response for response in responses if is_chosen(response, selected, of=of)]
            return listing(chosen, order=order, measure=measure), no_update, no_update, no_update
        return listing(responses, order=order, measure=measure), spread_figure(responses, of=of), None, not responses

    async def questions(clicks: int | None, live: dict[str, str]) -> object:
        if not clicks:  # the button was drawn and not clicked
            return no_update
        try:
            parts = await _read_questions(api_url, live["run"])
        except ApiError as error:
            return message("The displacements cannot be shown", str(error))
        if not any(values for _, values in parts):
            return html.P(NOT_OBSERVED, className="calm")
        return dcc.Graph(figure=question_figure(parts), config=GRAPH_CONFIG, style={"height": 260}, responsive=True)

    app.callback(
        Output(response_ids.QUESTIONS, "children"),
        Input(response_ids.QUESTIONS_DRAW, "n_clicks"),
        State(frame_ids.LIVE, "data"),
        prevent_initial_call=True,
    )(questions)
    app.clientside_callback(
        "(step) => step",
        Output(response_ids.TO, "value"),
        Input(response_ids.STEP, "value"),
        prevent_initial_call=True,
    )
    controls = (
        Input(response_ids.FROM, "value"),
        Input(response_ids.TO, "value"),
        Input(response_ids.CORRECT, "value"),
        Input(response_ids.KIND, "value"),
        Input(response_ids.ORDER, "value"),
        Input(response_ids.MEASURE, "value"),
        Input(response_ids.SPREAD_OF, "value"),
    )
    app.clientside_callback(address_writer(USUAL), Output(response_ids.LIST, "title"), *controls)
    app.callback(
        Output(response_ids.LIST, "children"),
        Output(response_ids.SPREAD, "figure"),
        Output(response_ids.SPREAD, "selectedData"),
        Output(response_ids.SPREAD_CARD, "hidden"),  # hidden for pairs, which have different rewards
        *controls,
        Input(response_ids.SPREAD, "selectedData"),
        State(frame_ids.LIVE, "data"),
    )(draw)


async def _read_questions(api_url: str, run_id: str) -> list[tuple[str, list[float]]]:
    """Read the responses at three times of the run, and return the name and the displacements of each."""
    async with ApiClient(api_url) as api:
        last = (await api.runs.get(run_id)).get("last_step") or 0
        windows = windows_of(last)
        read = await asyncio.gather(
            *(
                api.responses.newest(
                    run_id, from_step=first, to_step=end, correct=True, kind="random", limit=MAX_SAMPLED
                )
                for _, first, end in windows
            )
        )
    return [
        (f"{name}, steps {first} to {end}", question_displacements(responses))
        for (name, first, end), responses in zip(windows, read, strict=True)
    ]
