"""The callback that shows the open page to other people."""

from dash import Dash, Input, Output, State

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, describe_failure
from dashboard.ids import frame as frame_ids

__all__ = ["register"]


def register(app: Dash, api_url: str) -> None:
    """Register the callback."""

    async def show(_clicks: int | None, note: str | None, address: str) -> tuple[object, str | None]:
        try:
            async with ApiClient(api_url) as api:
                await api.show(address, note=(note or "").strip())
        except ApiError as error:
            return describe_failure("Not shown.", error), note
        return "Shown to the pages that are open now.", ""

    app.callback(
        Output(frame_ids.SHOW_STATE, "children"),
        Output(frame_ids.SHOW_NOTE, "value"),
        Input(frame_ids.SHOW_SEND, "n_clicks"),
        State(frame_ids.SHOW_NOTE, "value"),
        State(frame_ids.SHOW_ADDRESS, "data"),
        prevent_initial_call=True,
    )(show)
