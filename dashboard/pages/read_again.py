"""Reads what a page shows again: after a change, and when the tab is shown again (no event reports others' changes)."""

from collections.abc import Awaitable, Callable

from dash import Dash, Input, Output, no_update

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError

__all__ = ["read_again", "read_when_seen"]


async def read_again(read: Awaitable[object]) -> object:
    """Return what is read; if the collector does not answer, the page keeps what it shows.

    A change that the collector has stored is reported as done, also if it cannot be read afterwards.
    """
    try:
        return await read
    except ApiError:
        return no_update


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

    async def read_list(_seen: float) -> object:
        async with ApiClient(api_url) as api:
            return await read_again(read(api))

    shown = Output(listed, "children", allow_duplicate=True)
    app.callback(shown, Input(seen, "data"), prevent_initial_call=True)(read_list)
