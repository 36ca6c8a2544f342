"""The callback of each control that chooses runs: it offers the runs that match the typed text."""

import json
from typing import Final

from dash import Dash, Input, Output, State, no_update

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError
from dashboard.components.run_choice import NO_RUN, SEARCHING, choice_labels, run_options, search_text

__all__ = ["OFFERED", "register"]

OFFERED: Final = 50  # runs; a reader finds other runs with a longer text


def register(app: Dash, api_url: str, *controls: str) -> None:
    """Register the callback of each of these controls."""

    async def offer(text: str | None, chosen: str | list[str] | None) -> tuple[object, object]:
        wanted = search_text(text)
        kept = [run_id for run_id in (chosen if isinstance(chosen, list) else [chosen]) if isinstance(run_id, str)]
        try:
            async with ApiClient(api_url) as api:
                found = await api.runs.matching(wanted, limit=OFFERED)
                offered = run_options(found, await api.runs.some(kept), text=str(text or ""))
        except ApiError as error:
            return no_update, choice_labels(f"The runs cannot be searched. {error}")
        return offered, choice_labels(NO_RUN)

    for control in controls:
        app.clientside_callback(
            f"() => ({json.dumps(choice_labels(SEARCHING))})",
            Output(control, "labels"),
            Input(control, "search_value"),
            prevent_initial_call=True,
        )
        app.callback(
            Output(control, "options", allow_duplicate=True),
            Output(control, "labels", allow_duplicate=True),
            Input(control, "search_value"),
            State(control, "value"),
            prevent_initial_call=True,
        )(offer)
