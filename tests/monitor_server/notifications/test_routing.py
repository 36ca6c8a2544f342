"""The channel of each alert: routes, hours, escalations, acknowledgements and resolved alerts."""

import json
from datetime import UTC, datetime

import pytest

from monitor_server.notifications.configuration.tables import NotificationFile, Route
from monitor_server.notifications.messages.wording import text
from monitor_server.notifications.routing import is_open, matching_routes
from tests.live import eventually
from tests.monitor_server.notifications.receivers import receiving, webhook

AT_ONCE = "[grouping]\nwait_seconds = 0\nwindow_seconds = 0\n"


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("fields", "time", "expected"),
    [
        ({}, "2026-11-21 03:00", True),
        ({"hours": "08:00-20:00"}, "2026-11-23 08:00", True),
        ({"hours": "08:00-20:00"}, "2026-11-23 20:00", False),
        ({"hours": "08:00-24:00"}, "2026-11-23 23:59", True),
        ({"hours": "08:00-20:00", "time_zone": "Europe/Berlin"}, "2026-11-23 07:30", True),
        ({"hours": "08:00-20:00", "time_zone": "Europe/Berlin"}, "2026-07-01 06:30", True),  # summer time
        ({"days": ["mon"]}, "2026-11-23 12:00", True),
        ({"days": ["mon"]}, "2026-11-24 12:00", False),
        ({"days": ["fri"], "hours": "22:00-06:00"}, "2026-11-28 05:59", True),  # the night that began on Friday
        ({"days": ["sat"], "hours": "22:00-06:00"}, "2026-11-28 05:59", False),
        ({"days": ["sat"], "hours": "22:00-06:00"}, "2026-11-28 12:00", False),
    ],
)
def test_a_route_holds_in_its_hours(fields, time, expected):
    """In its own time zone; a night belongs to the day on which it begins."""
    assert is_open(Route(channels=["a"], **fields), at(time)) is expected


@pytest.mark.parametrize(("match", "expected"), [("first", [["a"]]), ("all", [["a"], ["b"]])])
def test_the_first_route_that_matches_counts_or_all(match, expected):
    """A route matches by project, kind and severity."""
    document = {
        "version": 1,
        "match": match,
        "channels": {name: {"type": "apprise", "url": "json://x"} for name in "abc"},
        "routes": [
            {"channels": ["c"], "severity": "critical"},
            {"channels": ["c"], "projects": ["other"]},
            {"channels": ["c"], "kinds": ["other"]},
            {"channels": ["a"]},
            {"channels": ["b"], "severity": "info"},
        ],
    }
    file = NotificationFile.model_validate(document)
    found = matching_routes(file, project="p", kind="k", severity="warning", now=0.0)
    assert [route.channels for route in found] == expected


def acknowledge(live):
    (alert,) = live.get("/alerts", state="firing")["items"]
    path = f"{live.url}/api/v1/alerts/{alert['id']}/ack"
    answer = live.pool.request(
        "POST", path, body=json.dumps({"by": "ann"}), headers={"Content-Type": "application/json"}
    )
    assert answer.status == 200


@pytest.fixture
def oncall():
    with receiving() as found:
        yield found


@pytest.fixture
def escalating(notifying, clock, oncall):
    """A collector that escalates after ten minutes, with a clock that the test moves."""
    route = '[[routes]]\nchannels = ["hook"]\nescalate = [{ after_minutes = 10, channels = ["oncall"] }]\n'
    return notifying(webhook("oncall", oncall.url), AT_ONCE, route, clock=clock, stall_minimum_seconds=1e9)


def step(live, number, *, end=None, **signals):
    live.send(run="r", records=[{"step": number, "scalars": signals}], end=end)


def test_an_alert_that_nobody_acknowledges_goes_to_the_next_channel(escalating, receiver, oncall, clock):
    """After its minutes, and that channel also receives that it is resolved."""
    step(escalating, 1, warn=1.0)
    eventually(lambda: len(receiver.received) == 1)
    with escalating.app.state.collector.store.read() as repositories:
        messages = repositories.notification_messages
        assert [messages.has_due(["oncall"], now=clock.now + seconds) for seconds in (599, 601)] == [False, True]
    clock.now += 601
    eventually(lambda: oncall.changes == [("r", ("unacknowledged",))])
    step(escalating, 2, warn=0.0)
    eventually(lambda: oncall.changes == [("r", ("unacknowledged",)), ("r", ("resolved",))])
    eventually(lambda: receiver.changes == [("r", ("opened",)), ("r", ("resolved",))])


@pytest.mark.parametrize("end", ["finished", "stopped"])
def test_a_message_says_how_the_run_of_an_alert_has_ended(escalating, receiver, end):
    """Its alert stays open, and no trainer can be asked to stop."""
    step(escalating, 1, end=end, page=1.0)
    eventually(lambda: len(receiver.bodies) == 1)
    assert [alert["run_end"] for alert in receiver.bodies[0]["alerts"]] == [end]
    assert f"The run has ended ({end})." in text(receiver.bodies[0])


def test_an_acknowledgement_ends_the_escalation_until_the_alert_becomes_graver(escalating, receiver, oncall, clock):
    """The more severe alert needs another acknowledgement, and its minutes begin again."""
    step(escalating, 1, warn=1.0)
    eventually(lambda: len(receiver.received) == 1)  # otherwise one message states both changes
    acknowledge(escalating)
    clock.now += 700
    step(escalating, 2, page=1.0)
    eventually(lambda: receiver.changes == [("r", ("opened",)), ("r", ("raised",))])
    assert oncall.received == []
    clock.now += 601
    eventually(lambda: oncall.changes == [("r", ("unacknowledged",))])
    assert oncall.bodies[0]["severity"] == "critical"


def test_a_resolved_alert_is_not_escalated_and_is_not_sent_to_who_knew_nothing(escalating, receiver, oncall, clock):
    """The channel of the escalation receives nothing at all."""
    step(escalating, 1, warn=1.0)
    step(escalating, 2, warn=0.0)
    clock.now += 700
    eventually(lambda: sum(len(changes) for _, changes in receiver.changes) == 2)
    store = escalating.app.state.collector.store
    with store.read() as repositories:
        assert repositories.channel_statuses.statuses(now=clock.now + 1e6).keys() == {"hook"}
    assert oncall.received == []
