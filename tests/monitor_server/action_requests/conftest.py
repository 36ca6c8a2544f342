"""A collector with a run whose alert fires, on a database of each kind, and the acts of its trainer and of people."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import trainer_hooks
from tests.databases import database_url
from tests.live import LiveCollector, eventually
from tests.monitor_server.simulated_collectors import two_stores

__all__ = ["database_url", "two_stores"]


@dataclass
class Asked:
    """A run with an alert, and ways to ask its trainer for something."""

    live: LiveCollector
    alert_id: str

    def ask(self, action: str = "stop", **body: Any) -> Any:
        """Ask for an action, and return the answer."""
        url = f"{self.live.url}/api/v1/alerts/{self.alert_id}/actions"
        return self.live.pool.request("POST", url, json={"action": action, "by": "anna"} | body)

    def requests(self) -> list[dict[str, Any]]:
        """Return the requests about the alert, the newest first."""
        items: list[dict[str, Any]] = self.live.get(f"/alerts/{self.alert_id}/actions")["items"]
        return items

    def history(self) -> list[tuple[str, str | None, str]]:
        """Return the history of requests, the oldest first."""
        items = reversed(self.live.get(f"/alerts/{self.alert_id}/history")["items"])
        return [(each["change"], each["by"], each["why"]) for each in items if each["change"].startswith("action")]

    def step(self, step: int, *, attempt: int = 1, **batch: Any) -> list[dict[str, Any]]:
        """Send a step of the trainer's first process, and return the requests of the receipt."""
        records = [{"step": step, "scalars": {"page": 1.0, "reward/mean": 0.5}} | batch.pop("record", {})]
        receipt = self.live.send(run="r", attempt=attempt, records=records, **batch)
        found: list[dict[str, Any]] = receipt.get("requests", [])
        return found


@pytest.fixture
def asked(start_collector: Any, scripted: Any) -> Callable[..., Asked]:
    """Start a collector, and a run whose alert fires since step 0."""

    def start(**settings: Any) -> Asked:
        live: LiveCollector = start_collector(engine=scripted, **settings)
        live.send(run="r", records=[{"step": 0, "scalars": {"page": 1.0, "reward/mean": 0.5}}])
        (alert,) = eventually(lambda: live.get("/alerts")["items"])
        return Asked(live, alert["id"])

    return start


@pytest.fixture
def training(start_collector: Any, tmp_path: Any, monkeypatch: Any) -> Iterator[Callable[..., Any]]:  # noqa: ARG001
    """Connect a trainer of this process to a collector; it is closed when the test ends, and before the collector.

    A trainer that is closed after its collector waits for it, for as long as closing may take.
    """
    monkeypatch.setenv("RLVITALS_SPOOL_DIR", str(tmp_path / "spool"))
    connected = []

    def connect(live: LiveCollector, **options: Any) -> Any:
        monitor = trainer_hooks.connect(live.url, run="trained", **options)
        connected.append(monitor)
        return monitor

    yield connect
    for monitor in connected:
        monitor.close()
