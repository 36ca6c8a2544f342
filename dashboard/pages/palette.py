"""The callback of the palette: finds the runs that match the typed text."""

from typing import Final

from dash import Dash, Input, Output

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError
from dashboard.components.palette import palette_links
from dashboard.components.run_choice import search_text
from dashboard.ids import frame as frame_ids

__all__ = ["register"]

SHOWN: Final = 8  # runs


def register(app: Dash, api_url: str) -> None:
    """Register the callback."""

    async def find(text: str | None) -> object:
        typed = str(text or "")
        wanted = search_text(typed)
        try:
            async with ApiClient(api_url) as api:
                return palette_links(typed, await api.runs.matching(wanted, limit=SHOWN) if wanted else [])
        except ApiError as error:
            return palette_links(typed, [], problem=f"The runs cannot be searched. {error}")

    app.callback(
        Output(frame_ids.PALETTE_FOUND, "children"), Input(frame_ids.PALETTE_TEXT, "value"), prevent_initial_call=True
    )(find)
