"""The limits of how long the collector keeps data."""

from collections.abc import Mapping
from typing import cast

from dashboard.collector_client.http_requests import Requests
from dashboard.collector_client.types.administration import LimitItem, RemovalItem

__all__ = ["Retention"]


class Retention:
    """The limits of how long the collector keeps data.

    Args:
        requests: What sends the requests to the collector.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def limits(self) -> list[LimitItem]:
        """Read how long the collector keeps data."""
        return cast("list[LimitItem]", await self._requests.items("/retention", {}))

    async def preview(self, limits: Mapping[str, float | None]) -> list[RemovalItem]:
        """Read what limits would remove; nothing is changed."""
        answer = await self._requests.ask("POST", "/retention/preview", json={"limits": dict(limits)}, is_saved=False)
        return cast("list[RemovalItem]", answer["items"])

    async def save(self, limits: Mapping[str, float | None], seen: Mapping[str, float | None]) -> list[LimitItem]:
        """Save limits in place of ``seen``, the limits that the person has seen."""
        asked = {"limits": dict(limits), "seen": dict(seen), "by": "the dashboard"}
        return cast("list[LimitItem]", (await self._requests.ask("PUT", "/retention", json=asked))["items"])
