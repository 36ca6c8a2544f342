"""The client of the collector's HTTP API: an object for each resource, which neither caches nor draws.

The methods return `dashboard.collector_client.types`.
"""

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self, cast

from dashboard.collector_client.http_requests import Requests
from dashboard.collector_client.resources.alerts import Alerts
from dashboard.collector_client.resources.example_runs import ExampleRuns
from dashboard.collector_client.resources.keys import Keys
from dashboard.collector_client.resources.notifications import Notifications
from dashboard.collector_client.resources.responses import Responses
from dashboard.collector_client.resources.retention import Retention
from dashboard.collector_client.resources.rules import Rules
from dashboard.collector_client.resources.runs import Runs
from dashboard.collector_client.resources.views import Views
from dashboard.collector_client.types.administration import AuditItem

__all__ = ["ApiClient"]


class ApiClient:
    """The API of one collector. An async context manager: open one for each page; it costs a connection.

    Args:
        base_url: The collector's address, such as ``http://127.0.0.1:8600``.
        timeout_seconds: How long one call may take.
    """

    def __init__(self, base_url: str, *, timeout_seconds: float = 10.0) -> None:
        self._requests = Requests(base_url, timeout_seconds=timeout_seconds)
        self.runs = Runs(self._requests)
        self.responses = Responses(self._requests)
        self.alerts = Alerts(self._requests)
        self.rules = Rules(self._requests)
        self.notifications = Notifications(self._requests)
        self.keys = Keys(self._requests)
        self.retention = Retention(self._requests)
        self.views = Views(self._requests)
        self.samples = ExampleRuns(self._requests)

    async def __aenter__(self) -> Self:
        await self._requests.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._requests.__aexit__(kind, error, trace)

    async def audit(self, *, limit: int) -> list[AuditItem]:
        """Read the newest changes that people made."""
        answer = await self._requests.get("/audit", {"limit": limit})
        return cast("list[AuditItem]", answer["items"])

    async def show(self, address: str, *, note: str) -> None:
        """Show a page of the dashboard to everybody who has the dashboard open now.

        Args:
            address: The path of the page with its query.
            note: Why it is shown.
        """
        await self._requests.ask("POST", "/view", json={"address": address, "note": note})

    def stream(self, run_id: str | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes of the collector's server-sent events as they come, until either side ends."""
        return self._requests.stream("/stream", {} if run_id is None else {"run_id": run_id})
