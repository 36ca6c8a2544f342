"""Recorded runs that come with the collector."""

from typing import cast

from dashboard.collector_client.http_requests import Requests

__all__ = ["ExampleRuns"]


class ExampleRuns:
    """Recorded runs that come with the collector.

    Args:
        requests: What sends the requests to the collector.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def play(self) -> None:
        """Have the collector play the recorded collapse that it comes with."""
        await self._requests.ask("POST", "/sample", json={})

    async def add_ablation(self) -> dict[str, int]:
        """Have the collector store the recorded ablation that it comes with; return its runs' last steps by id."""
        return cast("dict[str, int]", (await self._requests.ask("POST", "/sample/ablation", json={}))["last_steps"])
