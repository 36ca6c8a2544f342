"""The callback that sends a test message to a channel of notifications."""

from dash import ALL, Dash, Input, Output, ctx, no_update

from dashboard import ids
from dashboard.api_client import ApiClient, ApiError

__all__ = ["register"]


def register(app: Dash, api_url: str) -> None:
    """Register the callback."""

    async def test_channel(clicks: list[int | None]) -> object:
        if not any(clicks) or not ctx.triggered_id:
            return no_update
        name = ctx.triggered_id["channel"]
        try:
            async with ApiClient(api_url) as api:
                await api.test_channel(name)
        except ApiError as error:
            return f"The test of {name} failed. {error}"
        return f"{name} has accepted a test message."

    app.callback(
        Output(ids.CHANNEL_STATE, "children"), Input(ids.channel_test(ALL), "n_clicks"), prevent_initial_call=True
    )(test_channel)
