"""The callbacks of channels of notifications: send a test message to one, and check the text of their file."""

from dash import ALL, Dash, Input, Output, State, ctx, no_update

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError
from dashboard.components.settings.file_check import check_result
from dashboard.ids.settings import channels as channel_ids

__all__ = ["register"]


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def test_channel(clicks: list[int | None]) -> object:
        if not any(clicks) or not ctx.triggered_id:
            return no_update
        name = ctx.triggered_id["channel"]
        try:
            async with ApiClient(api_url) as api:
                await api.notifications.test_channel(name)
        except ApiError as error:
            return f"The test of {name} failed. {error}"
        return f"{name} has accepted a test message."

    app.callback(
        Output(channel_ids.STATE, "children"),
        Input(channel_ids.test(ALL), "n_clicks"),
        prevent_initial_call=True,
    )(test_channel)

    async def check_file(clicks: int | None, text: str | None) -> object:
        if not clicks:  # the button was drawn and not clicked
            return no_update
        try:
            async with ApiClient(api_url) as api:
                return check_result(await api.notifications.check(text or ""))
        except ApiError as error:
            return f"Not checked. {error}"

    app.callback(
        Output(channel_ids.FILE_ANSWER, "children"),
        Input(channel_ids.FILE_CHECK, "n_clicks"),
        State(channel_ids.FILE, "value"),
        prevent_initial_call=True,
    )(check_file)
