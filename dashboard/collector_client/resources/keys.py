"""API keys, and the permissions of the caller's key."""

from collections.abc import Mapping
from typing import cast

from dashboard.collector_client.http_requests import Requests, item_path
from dashboard.collector_client.types.administration import KeyItem

__all__ = ["Keys"]


class Keys:
    """API keys, and the permissions of the caller's key.

    Args:
        requests: What sends the requests to the collector.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def is_admin(self) -> bool:
        """Read whether the caller may do everything."""
        return bool((await self._requests.get("/session", {}))["scope"] == "admin")

    async def project(self) -> str | None:
        """Read the only project that the caller may access; None for every project."""
        return cast("str | None", (await self._requests.get("/session", {}))["project"])

    async def own_name(self) -> str | None:
        """Read the name of the caller's key; None if the caller uses none."""
        session = await self._requests.get("/session", {})
        return cast("str", session["name"]) if session["by_key"] else None

    async def all(self) -> list[KeyItem]:
        """Read all keys, including revoked and expired ones."""
        return cast("list[KeyItem]", await self._requests.items("/keys", {}))

    async def make(self, asked: Mapping[str, object]) -> dict[str, object]:
        """Make a key, and return it with ``key``, which is not stored anywhere."""
        # The page shows the key once, so it stays as if its form were not saved.
        return await self._requests.ask("POST", "/keys", json=dict(asked), is_saved=False)

    async def revoke(self, key: str) -> None:
        """Revoke a key."""
        await self._requests.ask("DELETE", item_path("keys", key))
