"""Channels and routes of notifications."""

from collections.abc import Mapping
from typing import cast
from urllib.parse import quote

from dashboard.collector_client.http_requests import Requests
from dashboard.collector_client.types.administration import ChannelItem, CheckedFile, NotificationSettings, VersionItem

__all__ = ["Notifications"]


class Notifications:
    """Channels and routes of notifications.

    Args:
        requests: What sends the requests to the collector.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def channels(self) -> list[ChannelItem]:
        """Read the channels of notifications."""
        return cast("list[ChannelItem]", await self._requests.items("/notifications/channels", {}))

    async def settings(self) -> NotificationSettings:
        """Read the channels and routes in force, without secrets."""
        return cast("NotificationSettings", await self._requests.get("/notifications/settings", {}))

    async def save(self, version: int, settings: Mapping[str, object]) -> NotificationSettings:
        """Put channels and routes into force in the place of a version."""
        asked = {"version": version, "settings": dict(settings), "by": "the dashboard"}
        return cast("NotificationSettings", await self._requests.ask("PUT", "/notifications/settings", json=asked))

    async def versions(self, *, limit: int) -> list[VersionItem]:
        """Read what was saved of channels and routes, the newest first."""
        answer = await self._requests.get("/notifications/settings/versions", {"limit": limit})
        return cast("list[VersionItem]", answer["items"])

    async def restore(self, version: int, restored: int) -> NotificationSettings:
        """Put an earlier version of channels and routes into force in the place of a version."""
        path, asked = (
            f"/notifications/settings/versions/{restored}/restore",
            {"version": version, "by": "the dashboard"},
        )
        return cast("NotificationSettings", await self._requests.ask("POST", path, json=asked))

    async def check(self, text: str) -> CheckedFile:
        """Check the text of a file of channels and routes; nothing is stored or sent."""
        return cast(
            "CheckedFile", await self._requests.ask("POST", "/notifications/check", json={"text": text}, is_saved=False)
        )

    async def test_channel(self, name: str) -> None:
        """Send a test message to a channel."""
        await self._requests.ask(
            "POST", f"/notifications/channels/{quote(name, safe='')}/test", json={}, is_saved=False
        )
