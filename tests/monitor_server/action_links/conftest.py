"""A collector whose channel `hook` gets links, on a database of each kind, and the actions of people with them."""

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.databases import database_url
from tests.live import LiveCollector, eventually
from tests.monitor_server.notifications.receivers import Receiver, receiving, written

__all__ = ["database_url"]

PUBLIC = "https://vitals.example"
SECRET = "a-secret-of-the-webhook-0123456789"  # noqa: S105 - of the tests
REST = '[[routes]]\nchannels = ["hook"]\n[grouping]\nwait_seconds = 0\nwindow_seconds = 0\n'
FORM = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "null"}


@dataclass
class Reader:
    """Somebody who receives the links of a collector, and opens them."""

    live: LiveCollector
    receiver: Receiver

    def links(self, *, message: int = 0) -> dict[str, str]:
        """Return the token of each action of a message's first alert."""
        eventually(lambda: len(self.receiver.bodies) > message)
        given = self.receiver.bodies[message]["alerts"][0]["links"]
        assert all(each["url"].startswith(f"{PUBLIC}/act/") for each in given)
        return {each["action"]: each["url"].removeprefix(f"{PUBLIC}/act/") for each in given}

    def open(self, token: str, **headers: str) -> Any:
        """Open a link."""
        return self.live.pool.request("GET", f"{self.live.url}/act/{token}", headers=headers or None)

    def press(self, token: str, confirmation: str | None = None) -> Any:
        """Press the button of a link's page."""
        if confirmation is None:
            confirmation = confirmation_of(self.open(token))
        body = urlencode({"confirmation": confirmation})
        return self.live.pool.request("POST", f"{self.live.url}/act/{token}", headers=FORM, body=body)

    def alert(self) -> dict[str, Any]:
        """Return the newest alert."""
        return self.live.get("/alerts")["items"][0]


def confirmation_of(page: Any) -> str:
    """Return the confirmation that the form of a page sends; nothing for a page without a form."""
    found = re.search(r'name="confirmation" value="([^"]+)"', page.data.decode())
    return html.unescape(found[1]) if found else ""


def channel(url: str, *, name: str = "hook") -> str:
    """Return the table of a webhook channel whose messages have links."""
    return f'[channels.{name}]\ntype = "webhook"\nurl = "{url}/in"\nsecret = "{SECRET}"\nactions = true\n'


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """An HTTP receiver."""
    with receiving() as found:
        yield found


@pytest.fixture
def reading(start_collector: Any, scripted: Any, receiver: Receiver, tmp_path: Path) -> Callable[..., Reader]:
    """Start a collector whose critical alerts reach a receiver with links."""

    def start(**settings: Any) -> Reader:
        options = {"public_url": PUBLIC} | settings
        if "notifications" not in options:
            options["notifications"] = written(tmp_path, channel(receiver.url), REST)
        return Reader(start_collector(engine=scripted, **options), receiver)

    return start


@pytest.fixture
def reader(reading: Callable[..., Reader]) -> Reader:
    """A collector with one critical alert whose links have arrived."""
    found = reading()
    found.live.send(run="r", project="p", records=[{"step": 7, "scalars": {"page": 1.0}}])
    return found
