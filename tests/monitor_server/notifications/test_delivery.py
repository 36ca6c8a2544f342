"""Changes of alerts reach a receiver: at least once, in few messages, whatever other channels do."""

import contextlib
import json
import socket
import ssl
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy

from monitor_server.durations import DAY_SECONDS
from monitor_server.notifications.configuration.tables import WebhookChannel
from monitor_server.notifications.delivery.webhook import (
    Cancellation,
    DeliveryFailed,
    is_refusal,
    post_webhook,
    signature,
)
from monitor_server.notifications.messages.wording import text
from monitor_server.store.repositories.notifications.channel_status import FAILING_ATTEMPTS
from monitor_server.store.sqlite import connections
from tests.databases import blocked_writes, sqlite_only
from tests.live import PATIENCE_SECONDS, eventually
from tests.monitor_server.notifications.receivers import SECRET, receiving, webhook, written
from tests.monitor_server.single_steps import step

AT_ONCE = "[grouping]\nwait_seconds = 0\nwindow_seconds = 0\n"
ROUTE = '[[routes]]\nchannels = ["hook"]\n'


def statuses(live):
    return {item["name"]: item for item in live.get("/notifications/channels")["items"]}


def test_an_alert_is_notified_when_it_opens_becomes_graver_and_resolves(notifying, receiver):
    """There are three signed messages, each with the facts that a person needs."""
    live = notifying(AT_ONCE, ROUTE, public_url="https://vitals.example/")
    for number, signals in enumerate([{"warn": 1.0}, {"page": 1.0}, {"warn": 0.0}]):
        step(live, number, **signals)
        eventually(lambda number=number: len(receiver.received) == number + 1)
    assert receiver.changes == [("r", ("opened",)), ("r", ("raised",)), ("r", ("resolved",))]
    headers, raw = receiver.received[0]
    body = json.loads(raw)
    assert headers["X-Rlvitals-Signature"] == signature(SECRET, headers["X-Rlvitals-Timestamp"], raw)
    assert headers["Idempotency-Key"] == body["id"]
    (alert,) = body["alerts"]
    assert (alert["kind"], alert["severity"], alert["opened_step"]) == ("scripted", "warning", 0)
    assert alert["summary"] == "warn is 1.0"
    assert alert["url"] == f"https://vitals.example/runs/{alert['run_id']}/alerts/{alert['id']}"
    assert [each["severity"] for each in receiver.bodies] == ["warning", "critical", "critical"]
    assert receiver.bodies[2]["title"] == "[resolved] scripted in r (default)"
    eventually(lambda: statuses(live)["hook"]["waiting"] == 0)


def test_a_message_is_repeated_with_the_same_bytes_until_it_is_accepted(notifying, receiver):
    """The key is the same, so that the receiver can drop a repeat."""
    answers = [500, 302, 403, 200]
    receiver.answer = lambda _: answers[min(len(receiver.received), 4) - 1]
    live = notifying(AT_ONCE, ROUTE)
    step(live, 1, warn=1.0)
    eventually(lambda: statuses(live)["hook"]["last_sent_at"])
    assert len(receiver.received) == 4
    assert len({body for _, body in receiver.received}) == 1
    assert {headers["Idempotency-Key"] for headers, _ in receiver.received} == {receiver.bodies[0]["id"]}


def test_a_message_whose_content_is_refused_is_sent_without_it_and_delays_no_later_alert(notifying, receiver):
    """The receiver does not take a name of a project: the third repeat only counts, and the next alert follows it."""
    receiver.answer = lambda _: 400 if b"poison" in receiver.received[-1][1] else 200
    live = notifying(AT_ONCE, ROUTE)
    live.send(run="r", project="poison", records=[{"step": 1, "scalars": {"warn": 1.0}}])
    eventually(lambda: receiver.received)
    step(live, 1, run="other", page=1.0)
    eventually(lambda: ("other", ("opened",)) in receiver.changes)
    *refused, counted, other = receiver.bodies
    assert [body["id"] for body in refused] == [counted["id"]] * FAILING_ATTEMPTS
    assert (counted["title"], counted["alerts"]) == ("[WARNING] 1 alert in 1 run: scripted", [])
    assert (counted["counts"]["alerts"], counted["omitted_alerts"]) == (1, 1)
    assert "incidents" not in counted  # they would make it larger, and webhooks need none
    assert "1 alert is not named here." in text(counted)
    assert other["severity"] == "critical"


@pytest.mark.parametrize(
    ("status", "expected"),
    [(400, True), (413, True), (422, True), (401, False), (403, False), (404, False), (429, False), (500, False)],
)
def test_some_statuses_are_about_what_a_message_contains(status, expected):
    """A wrong key, a closed receiver, a wrong address and a limit are about every message: none is changed for them."""
    assert is_refusal(status) is expected


def test_the_error_of_a_certificate_contains_no_part_of_the_address(tmp_path, monkeypatch):
    """It is untrusted, and then of another host; the error goes to the log and to an alert, and says which of both."""
    key, chain = tmp_path / "key.pem", tmp_path / "chain.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=other.example"]
    command += ["-addext", "subjectAltName=DNS:other.example", "-keyout", key, "-out", chain]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    errors = []
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as threads:
        url = f"https://localhost:{listening.getsockname()[1]}/in"
        channel = WebhookChannel(type="webhook", url=url, secret=SECRET)
        for _ in range(2):
            greeted = threads.submit(lambda: context.wrap_socket(listening.accept()[0], server_side=True))
            with pytest.raises(DeliveryFailed) as caught:
                post_webhook(channel, message_id="m", body=b"{}", cancellation=Cancellation())
            errors.append(str(caught.value))
            assert isinstance(greeted.exception(), OSError)
            monkeypatch.setenv("SSL_CERT_FILE", str(chain))
    assert errors == [
        f"the receiver could not be reached: certificate verify failed: {why}"
        for why in ("self-signed certificate", "Hostname mismatch")
    ]


def hang(handler, sent=b""):
    """Answer nothing, or the same byte again and again, until the client goes away or three seconds have passed."""
    begun = time.monotonic()
    handler.connection.settimeout(0.05)
    while time.monotonic() - begun < 3:
        handler.wfile.write(sent)
        with contextlib.suppress(TimeoutError):
            if not handler.connection.recv(1):
                return


MISBEHAVIOUR = {
    "hangs": hang,
    "drips": lambda handler: hang(handler, b"H"),
    "garbage": lambda handler: handler.wfile.write(b"\x00\xff" * 100) and None,
    "ten gigabytes": lambda handler: (
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n" + b"x" * 100_000) and None
    ),
    "refuses": lambda _: 200,
}


@sqlite_only
@pytest.mark.parametrize("kind", MISBEHAVIOUR)
def test_a_channel_that_misbehaves_does_not_delay_another(notifying, receiver, kind):
    """It hangs, answers without end, answers garbage, or does not listen: the other channel has its message."""
    with receiving() as other:
        url = other.url
        if kind == "refuses":
            with socket.create_server(("127.0.0.1", 0)) as free:
                url = f"http://127.0.0.1:{free.getsockname()[1]}"

        other.answer = MISBEHAVIOUR[kind]
        live = notifying(webhook("bad", url), AT_ONCE, '[[routes]]\nchannels = ["bad", "hook"]\n')
        for number in range(3):
            step(live, 0, run=f"run {number}", warn=1.0)
            eventually(lambda number=number: len(receiver.received) == number + 1)
        if kind == "ten gigabytes":  # it has accepted the message, and the rest is not read
            eventually(lambda: statuses(live)["bad"]["last_sent_at"])
        elif kind in ("garbage", "refuses"):
            eventually(lambda: "could not be reached" in (statuses(live)["bad"]["last_error"] or ""))


def test_twelve_runs_that_die_together_are_few_messages_and_none_is_lost(notifying, receiver, clock):
    """The first goes at once, and the window gathers the others into one."""
    live = notifying("[grouping]\nwait_seconds = 0\nwindow_seconds = 60\n", ROUTE, clock=clock)
    step(live, 0, run="run 00", page=1.0)
    eventually(lambda: statuses(live)["hook"]["last_sent_at"])
    for number in range(1, 12):
        step(live, 0, run=f"run {number:02}", page=1.0)
    eventually(lambda: statuses(live)["hook"]["waiting"] == 11)
    clock.now += 61
    eventually(lambda: len(receiver.received) == 2)
    assert sorted(run for run, _ in receiver.changes) == [f"run {number:02}" for number in range(12)]
    assert receiver.bodies[1]["title"] == "[CRITICAL] 11 alerts in 11 runs: scripted"


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_of_several_collectors_one_sends_each_message(notifying, start_collector, scripted, receiver, tmp_path):
    """Two detect and notify on one database: every alert arrives, and no message twice."""
    one = notifying(AT_ONCE, ROUTE)
    two = start_collector(engine=scripted, notifications=tmp_path / "notifications.toml")
    for number in range(8):
        step((one, two)[number % 2], 0, run=f"run {number:02}", page=1.0)
    eventually(lambda: len(receiver.changes) >= 8)
    eventually(lambda: statuses(one)["hook"]["waiting"] == 0)
    assert sorted(run for run, _ in receiver.changes) == [f"run {number:02}" for number in range(8)]
    keys = [headers["Idempotency-Key"] for headers, _ in receiver.received]
    assert len(set(keys)) == len(keys)


def test_silence_is_notified_like_what_detectors_find(notifying, receiver, clock):
    """The clock opens these alerts, and a sign of life resolves them."""
    live = notifying(AT_ONCE, ROUTE, clock=clock, stall_minimum_seconds=100, lost_factor=10)
    step(live, 1, a=1.0)
    clock.now += 101
    eventually(lambda: len(receiver.received) == 1)
    assert receiver.bodies[0]["alerts"][0]["kind"] == "telemetry_stale"
    step(live, 2, a=1.0)
    eventually(lambda: receiver.changes == [("r", ("opened",)), ("r", ("resolved",))])


def test_a_warning_does_not_delay_a_critical_alert(notifying, receiver, clock):
    """An alert above the severity of the last message does not wait for the window, and takes waiting ones with it."""
    live = notifying("[grouping]\nwait_seconds = 0\nwindow_seconds = 3600\n", ROUTE, clock=clock)
    step(live, 0, run="a", warn=1.0)
    eventually(lambda: statuses(live)["hook"]["last_sent_at"])
    step(live, 0, run="b", warn=1.0)
    step(live, 0, run="c", page=1.0)
    eventually(lambda: len(receiver.received) == 2)
    assert receiver.changes == [("a", ("opened",)), ("c", ("opened",)), ("b", ("opened",))]


def test_a_stop_ends_a_delivery_that_hangs_and_the_next_start_repeats_it(
    notifying, start_collector, scripted, receiver, tmp_path
):
    """Nothing is lost, and the key is the same."""
    receiver.answer = lambda handler: handler.connection.recv(1) and None
    live = notifying(AT_ONCE, ROUTE)
    step(live, 1, warn=1.0)
    eventually(lambda: receiver.received)
    live.stop()
    receiver.answer = lambda _: 200
    again = start_collector(engine=scripted, notifications=tmp_path / "notifications.toml")
    eventually(lambda: statuses(again)["hook"]["last_sent_at"])
    assert len({body for _, body in receiver.received}) == 1


def test_a_clock_that_was_days_ahead_holds_nothing_back_once_it_is_right(  # noqa: PLR0917 - fixtures
    notifying, start_collector, scripted, receiver, tmp_path, clock
):
    """Neither events that waited when the collector ended nor later events are held back."""
    clock.now = time.time() + 3 * DAY_SECONDS
    live = notifying("[grouping]\nwait_seconds = 0\nwindow_seconds = 3600\n", ROUTE, clock=clock)
    step(live, 0, run="a", page=1.0)
    eventually(lambda: statuses(live)["hook"]["last_sent_at"])
    step(live, 0, run="b", page=1.0)
    live.stop()
    file = written(tmp_path, webhook("hook", receiver.url), AT_ONCE, ROUTE)
    again = start_collector(engine=scripted, notifications=file)
    eventually(lambda: [run for run, _ in receiver.changes] == ["a", "b"])
    step(again, 0, run="c", page=1.0)
    eventually(lambda: [run for run, _ in receiver.changes] == ["a", "b", "c"])


def test_a_message_for_which_there_was_no_thread_is_sent_once_there_is(notifying, receiver, caplog):
    """A container may limit threads: neither this message nor the channel is forgotten, and the channel fails."""
    has_answered = threading.Event()

    def refuse_and_take_all_threads(_):
        has_answered.wait(PATIENCE_SECONDS)  # the request that opens the alert needs threads as well
        threading.stack_size(1 << 47)  # so that a new thread needs more memory than there is
        return 500

    receiver.answer = refuse_and_take_all_threads
    live = notifying(AT_ONCE, ROUTE)
    try:
        step(live, 1, page=1.0)
        has_answered.set()
        eventually(lambda: "can't start new thread" in caplog.text)
        collector = live.app.state.collector
        with collector.store.read() as repositories:
            eventually(lambda: collector.failing_channels(repositories) == {"hook"})
            assert not repositories.channel_statuses.failing(["hook"])
        metrics = collector.exposition.render().decode()
        assert 'rlvitals_notification_channel_failing{channel="hook"} 1.0' in metrics
    finally:
        receiver.answer = lambda _: 200
        threading.stack_size(0)
    eventually(lambda: statuses(live)["hook"]["last_sent_at"])
    assert len({body for _, body in receiver.received}) == 1


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_no_message_is_sent_about_what_was_silenced_as_it_was_formed(notifying, receiver, database_url, clock):
    """The silence commits between the look for waiting alerts and the message, which would be about none."""
    live = notifying("[grouping]\nwait_seconds = 1\nwindow_seconds = 0\n", ROUTE, clock=clock)
    engine = sqlalchemy.create_engine(database_url)
    waits = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE notification_e%'"
    )
    with engine.connect() as silencing, engine.connect() as watching:
        step(live, 0, run="a", warn=1.0)
        silencing.execute(sqlalchemy.text("DELETE FROM notification_events"))
        at_once = watching.execution_options(isolation_level="AUTOCOMMIT")
        clock.now += 2
        eventually(lambda: at_once.execute(sqlalchemy.text(waits)).scalar_one())
        silencing.commit()
    engine.dispose()
    step(live, 0, run="b", warn=1.0)
    clock.now += 2
    eventually(lambda: receiver.received)
    assert receiver.changes == [("b", ("opened",))]
    assert len(receiver.received) == 1


def test_a_message_is_not_repeated_because_the_database_was_away_for_a_moment(
    notifying, receiver, database_url, monkeypatch
):
    """The receiver has accepted it, and that is written once it can be."""
    monkeypatch.setattr(connections, "BUSY_TIMEOUT_SECONDS", 0.0)
    is_away = threading.Event()
    receiver.answer = lambda _: is_away.wait(60) and 200
    live = notifying(AT_ONCE, ROUTE)
    faults = live.app.state.collector.store.faults
    step(live, 1, page=1.0)
    eventually(lambda: receiver.received)
    with blocked_writes(database_url):
        before = faults.counts()
        is_away.set()
        eventually(lambda: faults.counts() != before)
    eventually(lambda: statuses(live)["hook"]["last_sent_at"], seconds=2 * PATIENCE_SECONDS)
    assert len(receiver.received) == 1
