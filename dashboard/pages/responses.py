"""The page of a run's sampled responses, at ``/runs/<id>/responses``, token by token."""

from urllib.parse import parse_qsl

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from dashboard import ids
from dashboard.api_client import ApiClient, ApiError, NotFoundError
from dashboard.components.page_frame import message
from dashboard.components.responses.listing import listing, response_controls

__all__ = ["register", "responses_page"]


async def responses_page(api_url: str, run_id: str, query: str = "") -> Component:
    """Draw the controls; the responses follow by a callback. ``from`` and ``to`` in the query choose the steps."""
    try:
        async with ApiClient(api_url) as api:
            run = await api.run(run_id)
    except NotFoundError:
        return message("No such run", f"No run has the id {run_id}.")
    except ApiError as error:
        return message("The responses cannot be shown", str(error))
    crumbs = [dcc.Link("All runs", href="/"), dcc.Link(run["name"], href=f"/runs/{run_id}"), html.Span("responses")]
    controls = response_controls(dict(parse_qsl(query)))
    return html.Div(
        className="responses-page",
        children=[
            dcc.Store(id=ids.LIVE, data={"page": "responses", "title": f"Responses of {run['name']}", "run": run_id}),
            html.Section(
                [
                    html.Nav(crumbs, className="crumbs"),
                    html.H1("Sampled responses"),
                    controls,
                ],
                className="card compare-controls",
            ),
            html.Div(id=ids.RESPONSES_LIST, className="responses-list"),
        ],
    )


def register(app: Dash, api_url: str) -> None:
    """Register the drawing of the responses that are chosen."""

    async def draw(  # noqa: PLR0917 - Dash passes inputs by their places
        first: int | None, last: int | None, correct: str, order: str, measure: str, live: dict[str, str]
    ) -> object:
        try:
            async with ApiClient(api_url) as api:
                responses = await api.responses(
                    live["run"],
                    from_step=first,
                    to_step=last,
                    correct={"true": True, "false": False}.get(correct),
                )
        except ApiError as error:
            return message("The responses cannot be shown", str(error))
        return listing(responses, order=order, measure=measure)

    app.callback(
        Output(ids.RESPONSES_LIST, "children"),
        Input(ids.RESPONSES_FROM, "value"),
        Input(ids.RESPONSES_TO, "value"),
        Input(ids.RESPONSES_CORRECT, "value"),
        Input(ids.RESPONSES_ORDER, "value"),
        Input(ids.RESPONSES_MEASURE, "value"),
        State(ids.LIVE, "data"),
    )(draw)
