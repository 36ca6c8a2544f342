"""Saved views of the fleet."""

from typing import cast

from dashboard.collector_client.http_requests import PAGE_ITEMS, Requests, item_path
from dashboard.collector_client.types.administration import ViewItem

__all__ = ["Views"]


class Views:
    """Saved views of the fleet.

    Args:
        requests: What sends the requests to the collector.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def all(self) -> list[ViewItem]:
        """Read the saved views of the fleet, the newest first."""
        return cast("list[ViewItem]", await self._requests.items("/views", {"limit": PAGE_ITEMS}))

    async def save(self, name: str, query: str, *, seen: float | None) -> ViewItem:
        """Save a view of the fleet, in the place of the one that was saved at ``seen``; None for a new name."""
        asked = {"name": name, "query": query, "seen": seen, "by": "the dashboard"}
        return cast("ViewItem", await self._requests.ask("POST", "/views", json=asked))

    async def delete(self, view_id: str) -> None:
        """Delete a saved view."""
        await self._requests.ask("DELETE", item_path("views", view_id))
