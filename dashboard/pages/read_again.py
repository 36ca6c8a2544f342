"""The callback that reads a list again when its tab is shown again: no event reports the changes of other people."""

from collections.abc import Awaitable, Callable

from dash import Dash, Input, Output, no_update

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError

__all__ = ["read_when_seen"]


def read_when_seen(
    app: Dash, api_url: str, *, listed: str, seen: str, read: Callable[[ApiClient], Awaitable[object]]
) -> None:
    """Register the callback.

    Args:
        app: The dashboard.
        api_url: The address of the API.
        listed: The id of the element that holds the list.
        seen: The id of the store that assets/live.js writes to when the tab is shown.
        read: Reads and draws the list.
    """

    async def read_again(_seen: float) -> object:
        try:
            async with ApiClient(api_url) as api:
                return await read(api)
        except ApiError:  # the list stays as it is; the next action shows the problem
            return no_update

    shown = Output(listed, "children", allow_duplicate=True)
    app.callback(shown, Input(seen, "data"), prevent_initial_call=True)(read_again)
