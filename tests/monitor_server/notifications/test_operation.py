"""Operation for operators and receivers: commands, a test message, metrics, failures, fallback, signatures."""

import json
import re
import threading
from pathlib import Path

import urllib3

from monitor_server.commands.main import main
from tests.databases import sqlite_only
from tests.live import eventually
from tests.monitor_server.notifications.receivers import SECRET, receiving, webhook, written

PAGE = (Path(__file__).parents[3] / "docs/notifications.md").read_text(encoding="utf-8")
AT_ONCE = "[grouping]\nwait_seconds = 0\nwindow_seconds = 0\n"
ROUTE = '[[routes]]\nchannels = ["hook"]\n'
pytestmark = sqlite_only


def metrics(live):
    text = live.pool.request("GET", f"{live.url}/metrics").data.decode()
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("rlvitals_notification")]
    return {name: float(value) for name, value in lines if "_created" not in name}


def test_the_command_lists_channels_and_tests_one(notifying, receiver, capsys):
    """The list holds no secret; the test is a signed message that says so, and stands in the audit log."""
    live = notifying()
    assert main(["notifications", "test", "hook", "--url", live.url]) == 0
    assert "hook has accepted the message" in capsys.readouterr().out
    assert (receiver.bodies[0]["test"], receiver.bodies[0]["alerts"]) == (True, [])
    assert main(["notifications", "list", "--url", live.url]) == 0
    output = capsys.readouterr().out
    assert re.search(r"hook +webhook +http://127.0.0.1:\d+/... +ok", output)
    assert SECRET not in output
    assert [item["action"] for item in live.get("/audit")["items"]] == ["notifications.test"]


def test_a_test_that_is_refused_says_why(notifying, receiver, capsys):
    """Status 1 and one line; a channel that is not there is named."""
    receiver.answer = lambda _: 403
    live = notifying()
    assert main(["notifications", "test", "hook", "--url", live.url]) == 1
    assert "the receiver answered 403" in capsys.readouterr().err
    assert main(["notifications", "test", "nobody", "--url", live.url]) == 1
    assert "no channel has the name" in capsys.readouterr().err


def test_a_signature_is_verified_as_the_page_says(notifying, receiver):
    """The page's own lines accept the message, and refuse another body, another time and another secret."""
    live = notifying(AT_ONCE, ROUTE)
    live.send(run="r", records=[{"step": 0, "scalars": {"warn": 1.0}}])
    headers, body = eventually(lambda: receiver.received)[0]
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names = {}
    exec(snippet, names)  # noqa: S102 - the page's own lines
    is_genuine = names["is_genuine"]
    assert is_genuine(headers, body, SECRET)
    assert not is_genuine(headers, body + b" ", SECRET)
    assert not is_genuine(headers | {"X-Rlvitals-Timestamp": "1"}, body, SECRET)
    assert not is_genuine(headers, body, "another")


def test_every_field_of_a_body_is_documented(notifying, receiver):
    """The page names the fields of the message and of its alerts."""
    live = notifying(AT_ONCE, ROUTE)
    live.send(run="r", records=[{"step": 0, "scalars": {"warn": 1.0}}])
    (body,) = eventually(lambda: receiver.bodies)
    section = PAGE.partition("## The webhook")[2]
    named = set(re.findall(r"[a-z_]+", section))
    assert {*body, *body["alerts"][0]} <= named


def test_a_channel_that_fails_is_shown_and_its_fallback_is_notified_instead(notifying, receiver):
    """Metrics, readiness and the list show it; the fallback names the channel and the reason."""
    with receiving() as other:
        receiver.answer = lambda _: 503
        fallback = '[fallback]\nchannel = "other"\nafter_minutes = 0\n'
        live = notifying(webhook("other", other.url), ROUTE, AT_ONCE, fallback)
        live.send(run="r", records=[{"step": 0, "scalars": {"page": 1.0}}])
        (body,) = eventually(lambda: other.bodies)
        assert body["failing_channels"] == {"hook": "the receiver answered 503"}
        assert body["alerts"][0]["instead_of"] == ["hook"]
        failing = 'rlvitals_notification_channel_failing{channel="hook"}'
        eventually(lambda: metrics(live)[failing] == 1.0)
        assert metrics(live)['rlvitals_notifications_waiting{channel="hook"}'] == 1.0
        assert metrics(live)['rlvitals_notifications_oldest_waiting_seconds{channel="hook"}'] > 0.0
        # An attempt is counted once its result is stored.
        attempts = 'rlvitals_notification_attempts_total{{channel="hook",result="{}"}}'
        eventually(lambda: metrics(live)[attempts.format("failed")] >= 3.0)
        assert json.loads(live.pool.request("GET", f"{live.url}/readyz").data)["failing_channels"] == 1
        receiver.answer = lambda _: 200
        eventually(lambda: metrics(live)[failing] == 0.0)
        assert metrics(live)['rlvitals_notifications_waiting{channel="hook"}'] == 0.0
        eventually(lambda: metrics(live).get(attempts.format("sent")) == 1.0)
    assert len(other.received) == 1


def test_what_waits_for_the_end_of_a_long_window_is_not_late(notifying, receiver, clock):
    """A digest every six hours: Prometheus would page about a channel that gets its messages in time."""
    live = notifying("[grouping]\nwait_seconds = 0\nwindow_seconds = 21600\n", ROUTE, clock=clock)
    oldest = 'rlvitals_notifications_oldest_waiting_seconds{channel="hook"}'
    live.send(run="r", records=[{"step": 0, "scalars": {"warn": 1.0}}])
    eventually(lambda: receiver.bodies and metrics(live)['rlvitals_notifications_waiting{channel="hook"}'] == 0.0)
    live.send(run="other", records=[{"step": 0, "scalars": {"warn": 1.0}}])
    clock.now += 3 * 3600
    assert metrics(live)['rlvitals_notifications_waiting{channel="hook"}'] >= 1.0  # the runs are silent by now, too
    assert metrics(live)[oldest] == 0.0


def test_a_channel_that_fails_is_itself_an_alert(notifying, receiver):
    """It stands in the list with its reason, can be acknowledged, and ends when a message is accepted."""

    def alert():
        kind = "channel_failing:hook"
        return next((each for each in live.get("/alerts")["items"] if each["kind"] == kind), None)

    receiver.answer = lambda _: 503
    live = notifying(AT_ONCE, ROUTE)
    live.send(run="r", records=[{"step": 0, "scalars": {"page": 1.0}}])
    found = eventually(alert)
    assert (found["project"], found["run"], found["stage"]) == ("rlvitals", "collector", "firing")
    assert found["summary"] == "the channel hook does not accept its messages: the receiver answered 503"
    assert live.get(f"/runs/{found['run_id']}")["status"] == "finished"
    for part in ("attribution", "incident"):
        assert live.pool.request("GET", f"{live.url}/api/v1/alerts/{found['id']}/{part}").status == 200
    answer = live.pool.request("POST", f"{live.url}/api/v1/alerts/{found['id']}/ack", json={"by": "ann"})
    assert answer.json()["stage"] == "acknowledged"
    receiver.answer = lambda _: 200
    eventually(lambda: alert()["stage"] == "resolved")
    assert {name for body in receiver.bodies for name in body["counts"]["kinds"]} == {"scripted"}


def test_the_alert_of_a_channel_that_is_removed_is_resolved(notifying, receiver, tmp_path):
    """The file no longer has the channel, and nobody waits for it."""
    receiver.answer = lambda _: 503
    live = notifying(AT_ONCE, ROUTE)
    live.send(run="r", records=[{"step": 0, "scalars": {"page": 1.0}}])
    eventually(lambda: [each for each in live.get("/alerts")["items"] if each["kind"].startswith("channel_failing")])
    with receiving() as other:
        written(tmp_path, webhook("other", other.url), AT_ONCE, '[[routes]]\nchannels = ["other"]\n')
        assert live.pool.request("POST", f"{live.url}/api/v1/notifications/reload").status == 200
        eventually(lambda: [each["kind"] for each in live.get("/alerts", state="firing")["items"]] == ["scripted"])


def test_a_message_that_is_never_accepted_is_given_up_and_says_so(notifying, receiver, caplog):
    """The hours of the file bound it; the log, the list and the metric keep it, and the next alert is tried again."""
    receiver.answer = lambda _: 500
    live = notifying(AT_ONCE, ROUTE, "[limits]\ngive_up_hours = 0.0001\n")
    live.send(run="a", records=[{"step": 0, "scalars": {"page": 1.0}}])
    (item,) = eventually(
        lambda: [item for item in live.get("/notifications/channels")["items"] if item["last_given_up_at"]]
    )
    assert (item["is_failing"], item["waiting"]) == (True, 0)
    assert item["last_error"] == "the receiver answered 500"
    assert "a notification to hook is given up: the receiver answered 500" in caplog.text
    receiver.answer = lambda _: 200
    live.send(run="b", records=[{"step": 0, "scalars": {"page": 1.0}}])
    eventually(lambda: not live.get("/notifications/channels")["items"][0]["is_failing"])
    assert live.get("/notifications/channels")["items"][0]["last_error"] is None


def test_a_test_that_is_accepted_ends_the_failure_of_a_channel(notifying, receiver):
    """Whoever corrects the receiver and tests the channel sees that it works, without the next alert."""
    receiver.answer = lambda _: 500
    live = notifying(AT_ONCE, ROUTE, "[limits]\ngive_up_hours = 0.0001\n")
    live.send(run="a", records=[{"step": 0, "scalars": {"page": 1.0}}])
    eventually(lambda: live.get("/notifications/channels")["items"][0]["last_given_up_at"])
    assert len(live.get("/alerts", state="firing")["items"]) == 2
    receiver.answer = lambda _: 200
    assert live.pool.request("POST", f"{live.url}/api/v1/notifications/channels/hook/test").status == 200
    (item,) = live.get("/notifications/channels")["items"]
    assert (item["is_failing"], item["last_error"]) == (False, None)
    assert [each["kind"] for each in live.get("/alerts", state="firing")["items"]] == ["scripted"]


def test_tests_of_a_channel_that_hangs_delay_no_trainer(notifying, receiver):
    """For any number of people who press the button, two tests run and the others are answered with 503."""
    is_released, statuses = threading.Event(), []
    receiver.answer = lambda _: is_released.wait(60) and 200
    live = notifying()

    def press():
        address = f"{live.url}/api/v1/notifications/channels/hook/test"
        statuses.append(urllib3.request("POST", address, timeout=60).status)

    people = [threading.Thread(target=press) for _ in range(40)]
    for each in people:
        each.start()
    try:
        eventually(lambda: len(receiver.received) == 2)
        live.send(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
        eventually(lambda: len(statuses) == 38)
        assert set(statuses) == {503}
    finally:
        is_released.set()
        for each in people:
            each.join()
    assert statuses[38:] == [200, 200]
