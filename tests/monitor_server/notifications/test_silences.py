"""Nobody is notified of an alert that a silence covers; an alert that fires when the silence ends is sent."""

import time

import pytest
from sqlalchemy import func, select

from monitor_server.durations import DAY_SECONDS
from monitor_server.store.tables import notification_events
from tests.live import eventually
from tests.monitor_server.notifications.receivers import receiving, webhook
from tests.monitor_server.single_steps import step
from tests.store_connections import current_connection

AT_ONCE = "[grouping]\nwait_seconds = 0\nwindow_seconds = 0\n"
ROUTES = '[[routes]]\nchannels = ["hook"]\nescalate = [{ after_minutes = 5, channels = ["oncall"] }]\n'


@pytest.fixture
def oncall():
    with receiving() as found:
        yield found


@pytest.fixture
def live(notifying, clock, oncall):
    return notifying(
        webhook("oncall", oncall.url), AT_ONCE, ROUTES, clock=clock, tick_seconds=0.05, stall_minimum_seconds=1e6
    )


def silence(live, **body):
    return live.pool.request("POST", f"{live.url}/api/v1/silences", json={"minutes": 10} | body).json()


def waiting(live):
    """Return how many changes wait for any channel, now or later."""
    with live.app.state.collector.store.read():
        channel = notification_events.c.channel
        query = select(func.count()).where(channel.in_(["hook", "oncall"]))
        return current_connection().execute(query).scalar_one()


def test_a_silenced_alert_is_recorded_and_nobody_is_notified(live, receiver, oncall, clock):
    """No message is sent when it opens, stays unacknowledged or is resolved; another alert is sent."""
    silence(live, project="default", by="ann")
    step(live, 1, warn=1.0)
    eventually(lambda: live.get("/alerts")["items"][0]["stage"] == "silenced")
    clock.now += 400
    step(live, 2, warn=1.0)
    step(live, 3)
    eventually(lambda: live.get("/alerts")["items"][0]["stage"] == "resolved")
    assert waiting(live) == 0
    live.send(run="other", project="elsewhere", records=[{"step": 1, "scalars": {"warn": 1.0}}])
    eventually(lambda: receiver.changes == [("other", ("opened",))])
    assert oncall.received == []


def test_what_fires_when_a_silence_ends_is_sent_then(live, receiver, oncall, clock):
    """It is escalated from then on."""
    made = silence(live, project="default")
    step(live, 1, warn=1.0)
    eventually(lambda: live.get("/alerts")["items"][0]["stage"] == "silenced")
    assert waiting(live) == 0
    clock.now = made["ends_at"] + 1
    eventually(lambda: receiver.changes == [("r", ("opened",))])
    clock.now += 301
    eventually(lambda: oncall.changes == [("r", ("unacknowledged",))])


def test_who_was_notified_before_a_silence_is_not_notified_again(live, receiver, oncall, clock):
    """The escalation that was waiting is removed by the silence, and its minutes begin again when it ends."""
    step(live, 1, warn=1.0)
    eventually(lambda: receiver.changes == [("r", ("opened",))])
    alert = live.get("/alerts")["items"][0]
    made = silence(live, alert_id=alert["id"])
    clock.now += 400
    assert waiting(live) == 1
    live.pool.request("POST", f"{live.url}/api/v1/silences/{made['id']}/end", json={})
    assert waiting(live) == 2
    clock.now += 301
    eventually(lambda: oncall.changes == [("r", ("unacknowledged",))])
    assert receiver.changes == [("r", ("opened",))]


def test_what_fires_when_a_person_ends_a_silence_elsewhere_is_sent(notifying, start_collector, receiver):
    """The process that answers people need not have the file of channels; the one that detects has it."""
    live = notifying(AT_ONCE, '[[routes]]\nchannels = ["hook"]\n')
    web = start_collector(role="web")
    made = silence(web, project="default")
    step(live, 1, warn=1.0)
    eventually(lambda: web.get("/alerts")["items"][0]["stage"] == "silenced")
    web.pool.request("POST", f"{web.url}/api/v1/silences/{made['id']}/end", json={})
    eventually(lambda: receiver.changes == [("r", ("opened",))])
    assert web.get("/alerts")["items"][0]["stage"] == "firing"


def test_a_pending_alert_is_sent_when_it_fires(notifying, receiver):
    """An alert that is resolved before it fires is never sent."""
    live = notifying(AT_ONCE, '[[routes]]\nchannels = ["hook"]\n', pending_steps=1)
    step(live, 1, warn=1.0)
    step(live, 2)
    step(live, 1, run="s", warn=1.0)
    step(live, 2, run="s", warn=1.0)
    eventually(lambda: receiver.changes == [("s", ("opened",))])
    step(live, 3, run="s")
    eventually(lambda: receiver.changes == [("s", ("opened",)), ("s", ("resolved",))])


def test_a_silence_that_was_made_by_a_clock_days_ahead_lasts_no_longer(live, start_collector, scripted, clock):
    """Ten minutes stay ten minutes once the clock is right and the collector was started again."""
    clock.now = time.time() + 3 * DAY_SECONDS
    step(live, 1, page=1.0)
    assert silence(live, kind="scripted")["ends_at"] == clock.now + 600
    live.stop()
    (item,) = start_collector(engine=scripted).get("/silences")["items"]
    assert (item["state"], item["ends_at"] - item["starts_at"]) == ("active", 600)
    assert item["ends_at"] < time.time() + DAY_SECONDS
