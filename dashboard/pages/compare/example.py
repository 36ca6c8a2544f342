"""The offer of recorded runs on a comparison without runs."""

import asyncio
from typing import Final

from dash import Dash, Input, Output, html, no_update
from dash.development.base_component import Component

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError
from dashboard.collector_client.types.runs import RunDetail
from dashboard.components.run_choice import run_options
from dashboard.ids import compare as compare_ids
from dashboard.pages import run_choice

__all__ = ["example", "register"]

EXAMPLE_READS: Final = 100
EXAMPLE_PAUSE_SECONDS: Final = 0.25


def example() -> Component:
    """Return the content of the page while no run is chosen."""
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


def register(app: Dash, api_url: str) -> None:
    """Register the callback of its button."""

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
