"""Fixtures that tests of notifications share: a receiver, and a collector that notifies it, on both databases."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from monitor_server.notifications import delivery_results
from monitor_server.notifications.planning import retry_delay
from tests.databases import database_url
from tests.live import LiveCollector
from tests.monitor_server.notifications.receivers import Receiver, receiving, webhook, written
from tests.monitor_server.simulated_collectors import two_stores

__all__ = ["database_url", "two_stores"]

ROUTE = '[[routes]]\nchannels = ["hook"]\n'
QUICKER = 20.0  # tests repeat refused messages faster than the collectors of users


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the delays after which a message that was refused is sent again."""
    monkeypatch.setattr(
        delivery_results, "retry_delay", lambda attempts, *, jitter: retry_delay(attempts, jitter=jitter) / QUICKER
    )


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """An HTTP receiver."""
    with receiving() as found:
        yield found


@pytest.fixture
def notifying(start_collector: Any, scripted: Any, receiver: Receiver, tmp_path: Path) -> Callable[..., LiveCollector]:
    """Start a collector whose channel `hook` is the receiver; `rest` follows its table in the file."""

    def start(*rest: str, head: str = "", **settings: Any) -> LiveCollector:
        path = written(tmp_path, webhook("hook", receiver.url + "/in"), *(rest or (ROUTE,)), head=head)
        live: LiveCollector = start_collector(engine=scripted, notifications=path, **settings)
        return live

    return start
