"""A collector that is killed between an alert and its notification loses none, and a repeat has the same key."""

import pytest
import urllib3

from tests.databases import execute
from tests.faults.collector import start
from tests.live import eventually
from tests.monitor_server.notifications.receivers import webhook, written

ROUTE = '[[routes]]\nchannels = ["hook"]\n'


@pytest.fixture
def collector(database_url, unused_port, monkeypatch, tmp_path):
    """Start a collector in its own process, with a file of notifications."""
    url = f"http://127.0.0.1:{unused_port}/api/v1"

    def started(*parts):
        monkeypatch.setenv("RLVITALS_NOTIFICATIONS", str(written(tmp_path, *parts)))
        return start(database_url, unused_port)

    def send_not_a_number():
        body = {"schema_version": 1, "run": "r", "records": [{"step": 0, "scalars": {"grad/norm": "NaN"}}]}
        assert urllib3.request("POST", f"{url}/ingest", json=body).status == 200
        eventually(lambda: urllib3.request("GET", f"{url}/alerts?state=firing").json()["items"])

    return started, send_not_a_number


def test_an_alert_whose_message_was_not_formed_is_notified_by_the_next_start(collector, receiver):
    """It was killed after the commit of the alert, while it gathered."""
    started, send_not_a_number = collector
    hook = webhook("hook", receiver.url)
    with started(hook, ROUTE, "[grouping]\nwait_seconds = 60\n") as process:
        send_not_a_number()
        process.kill()
    assert receiver.received == []
    with started(hook, ROUTE):
        eventually(lambda: receiver.received)
    ((run, changes),) = receiver.changes
    assert (run, changes) == ("r", ("opened",))


def test_a_message_that_was_under_way_is_repeated_with_the_same_key(collector, receiver, database_url):
    """The receiver had it and had not answered; on PostgreSQL the claim of the killed collector ends first."""
    receiver.answer = lambda handler: handler.connection.recv(1) and None
    started, send_not_a_number = collector
    hook = webhook("hook", receiver.url)
    with started(hook, ROUTE) as process:
        send_not_a_number()
        eventually(lambda: receiver.received)
        process.kill()
    receiver.answer = lambda _: 200
    ended = "UPDATE notification_messages SET claimed_until = 0"
    execute(database_url, {"postgresql": ended, "sqlite": "SELECT 1"})
    with started(hook, ROUTE):
        eventually(lambda: len(receiver.received) == 2)
    assert len({(headers["Idempotency-Key"], body) for headers, body in receiver.received}) == 1
