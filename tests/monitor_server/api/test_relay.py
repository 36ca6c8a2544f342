"""Events reach the subscribers of every collector on one PostgreSQL database, whichever of them projects."""

import contextlib
import itertools
import json

import psycopg
import pytest
import sqlalchemy

from monitor_server.api.live_events import relay
from monitor_server.api.live_events.broadcast import Broadcast
from monitor_server.api.live_events.events import render
from monitor_server.api.live_events.relay import Relay
from monitor_server.step_processing.events import RunDeleted, StepCompleted
from monitor_server.store.database import Store
from monitor_server.store.postgresql import listen_notify
from monitor_server.store.postgresql.listen_notify import MAX_SENDERS, NotifyChannel
from monitor_server.store.repositories.steps import Step
from tests.databases import execute
from tests.live import eventually, listening

LONG_IDLE = """
SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'
AND state_change < clock_timestamp() - interval '1 s'
"""

postgres_only = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


def _relay(live):
    return live.app.state.collector.relay


@pytest.fixture
def heard_alone(monkeypatch):
    """A collector believes in the subscribers of others once it has heard of them."""
    monkeypatch.setattr(relay, "UNHEARD_SECONDS", 0.0)


@pytest.fixture
def pair(start_collector, scripted, heard_alone):  # noqa: ARG001
    """A collector that answers readers, and one that stores and projects."""
    reader, projector = start_collector(engine=scripted, role="web"), start_collector(engine=scripted)
    eventually(lambda: _relay(reader).is_listening and _relay(projector).is_listening)
    return reader, projector


@postgres_only
def test_a_subscriber_of_one_collector_sees_the_step_that_another_projected(pair):
    """The step, the alert and the run arrive as they would from its own projector, in order, of the run asked for."""
    reader, projector = pair
    run_id = projector.run(run="r")
    with listening(reader, run_id=run_id) as events:
        eventually(lambda: _relay(projector).is_watched_elsewhere)
        projector.send(run="other", records=[{"step": 0, "scalars": {"a": 0.0}}])
        scalars = [{"a": 1.0, "warn": float(step)} for step in (0, 1)]
        projector.send(run="r", records=[{"step": at, "time": 5.0, "scalars": sent} for at, sent in enumerate(scalars)])
        heard = [next(events) for _ in range(3)]
    assert [(kind, data.get("step", data.get("opened_step"))) for kind, data in heard] == [
        ("step", 0), ("step", 1), ("alert", 1),
    ]  # fmt: skip
    assert heard[0][1] == {
        "run_id": run_id, "attempt": 1, "step": 0, "time": 5.0, "phase": "healthy",
        "signals": {"a": 1.0, "warn": 0.0}, "last_seen": reader.get(f"/runs/{run_id}")["last_seen"],
    }  # fmt: skip
    metrics = reader.pool.request("GET", f"{reader.url}/metrics").data.decode()
    assert 'rlvitals_relayed_events_total{direction="received"}' in metrics


@postgres_only
def test_a_projector_that_has_just_begun_sends_what_has_waited_for_it(start_collector, scripted, monkeypatch):
    """Its subscribers are announced later; an open page would not learn of the alert, and nothing tells it of a gap."""
    monkeypatch.setattr(relay, "WATCH_SECONDS", 600.0)
    reader = start_collector(engine=scripted, role="web")
    ingest = start_collector(role="ingest")
    with listening(reader) as events:
        ingest.send(run="r", records=[{"step": 0, "scalars": {"warn": 1.0}}])
        start_collector(engine=scripted, role="projector")
        earlier = itertools.takewhile(lambda kind: kind != "alert", (kind for kind, _ in events))
        assert "step" in set(earlier)


@postgres_only
def test_a_collector_listens_longer_than_a_server_lets_sessions_be_idle(start_collector, database_url):
    """Each subscriber would otherwise learn, again and again, that it may have missed events."""
    with psycopg.connect(database_url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET idle_session_timeout = '100ms'")
        live = start_collector()
        eventually(lambda: _relay(live).is_listening)
        eventually(lambda: connection.execute(LONG_IDLE).fetchall(), seconds=15)


@postgres_only
def test_an_event_longer_than_a_notification_arrives_whole(pair):
    """PostgreSQL carries at most 8,000 bytes at once; a step of 400 signals with names of 100 characters has 45,000."""
    reader, projector = pair
    signals = {f"signal/ä{'x' * 90}{number}": float(number) for number in range(400)}
    with listening(reader) as events:
        eventually(lambda: _relay(projector).is_watched_elsewhere)
        projector.send(run="r", records=[{"step": 0, "scalars": signals}])
        heard = next(data for kind, data in events if kind == "step")
    assert heard["signals"] == signals


@postgres_only
def test_events_go_on_after_the_database_has_ended_the_connection(pair, database_url):
    """The listener connects again, and its subscribers learn that they may have missed something."""
    reader, projector = pair
    engine = sqlalchemy.create_engine(database_url)
    with listening(reader) as events:
        eventually(lambda: _relay(projector).is_watched_elsewhere)
        with engine.connect() as connection:
            ended = connection.execute(
                sqlalchemy.text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND query LIKE 'LISTEN%'"
                )
            ).all()
        engine.dispose()
        assert len(ended) == 2
        eventually(lambda: not _relay(reader).is_listening)
        assert next(events) == ("dropped", {"count": 1})  # no further event may follow the missed one
        eventually(lambda: _relay(projector).is_listening)
        projector.send(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
        assert next(events)[0] in {"step", "run"}


@postgres_only
def test_nothing_is_sent_where_no_other_collector_has_subscribers(pair):
    """A subscriber of the projecting collector itself costs no notification."""
    _, projector = pair
    with listening(projector) as events:
        projector.send(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
        assert next(events)[0] is not None
    metrics = projector.pool.request("GET", f"{projector.url}/metrics").data.decode()
    assert 'rlvitals_relayed_events_total{direction="sent"} 0.0' in metrics
    assert not _relay(projector).is_watched_elsewhere


@postgres_only
def test_what_is_not_understood_or_incomplete_is_passed_over(database_url):
    """Foreign payloads and a message without its first part are skipped alone; the queue of sent events is bounded."""
    store, other, heard = Store.open(database_url), Store.open(database_url), []
    receiver = store.open_notifications(heard.append, lambda: None)
    sender = other.open_notifications(lambda _: None, lambda: None)
    receiver.start()
    eventually(lambda: receiver.is_listening)
    engine = sqlalchemy.create_engine(database_url)
    with engine.begin() as connection:
        for payload in ("", "hello", "a b c d e", "s 1 1 2 tail", "s 2 0 2 head", "s 3 0 1 whole", "s 4 0 99 long"):
            connection.execute(sqlalchemy.text("SELECT pg_notify('rlvitals', :payload)"), {"payload": payload})
    engine.dispose()
    for number in range(10_003):
        sender.send(lambda number=number: json.dumps(number))
    assert sender.dropped == 3
    sender.start()
    eventually(lambda: len(heard) == 10_001)
    assert heard == ["whole", *(str(number) for number in range(3, 10_003))]
    for each in (sender, receiver, store, other):
        (each.close if isinstance(each, Store) else each.stop)()


@postgres_only
def test_the_first_message_after_the_database_has_ended_the_connections_arrives(database_url, monkeypatch):
    """The receivers are there again before the sender has anything to send, and nothing tells them of a gap."""
    monkeypatch.setattr(listen_notify, "RECONNECT_SECONDS", 0.01)
    heard, gaps = [], []
    with contextlib.ExitStack() as stack:
        store, other = (stack.enter_context(contextlib.closing(Store.open(database_url))) for _ in range(2))
        receiver = store.open_notifications(heard.append, lambda: gaps.append(len(heard)))
        sender = other.open_notifications(lambda _: None, lambda: None)
        for each in (receiver, sender):
            each.start()
            stack.callback(each.stop)
        eventually(lambda: receiver.is_listening)
        sender.send(lambda: "before")
        eventually(lambda: heard)
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        execute(database_url, {"postgresql": f"SELECT pg_terminate_backend(pid, 5000) {others}"})
        eventually(lambda: len(gaps) == 2)
        sender.send(lambda: "first")
        eventually(lambda: heard == ["before", "first"])
    assert sender.dropped == 0


@postgres_only
def test_an_event_that_cannot_be_written_takes_no_other_with_it(database_url, caplog):
    """It is counted and logged with its place in the code; those that waited with it were lost and not counted."""
    heard = []
    with contextlib.ExitStack() as stack:
        store, other = (stack.enter_context(contextlib.closing(Store.open(database_url))) for _ in range(2))
        receiver = store.open_notifications(heard.append, lambda: None)
        sender = other.open_notifications(lambda _: None, lambda: None)
        for message in (lambda: "before", lambda: str(1 // 0), lambda: "after"):
            sender.send(message)
        stack.callback(receiver.stop)
        receiver.start()
        eventually(lambda: receiver.is_listening)
        stack.callback(sender.stop)
        sender.start()
        eventually(lambda: heard == ["before", "after"])
    assert sender.dropped == 1
    assert [record.exc_info is not None for record in caplog.records if "is left out" in record.getMessage()] == [True]


def test_a_phase_of_a_newer_version_is_shown_as_unknown():
    """The newer collector has stored it, and this one projects the next step."""
    step = Step(step=1, attempt=1, time=0.0, signals={})
    event = StepCompleted(run_id="r", attempt=1, phase="newer", last_seen=0.0, step=step)
    assert json.loads(render(event).data)["phase"] == "unknown"


def test_events_that_are_dropped_while_the_database_is_away_are_counted(monkeypatch):
    """Two of five events find a place in the queue, whose length can be read."""
    monkeypatch.setattr(relay, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(listen_notify, "MAX_WAITING", 2)
    relayed, receivers = [], []

    def connect():
        raise psycopg.OperationalError("the database is away")

    def open_channel(receive, on_gap):
        receivers.append(receive)
        return NotifyChannel(connect, on_message=receive, on_gap=on_gap)

    tested = Relay(Broadcast(queue_size=4), open_channel=open_channel, on_relayed=lambda *given: relayed.append(given))
    receivers[0](json.dumps({"watching": True}))
    tested.publish([RunDeleted(run_id=str(number), project="p") for number in range(5)])
    assert {name: size() for name, size in tested.caches.items()} == {"relay_messages": 2, "relay_senders": 0}
    tested.start()
    eventually(lambda: ("dropped", 3) in relayed)
    tested.stop()
    assert relayed == [("sent", 5), ("dropped", 3)]


FORGED = {
    "nested": "[" * 7_000,
    "a number": "1",
    "nothing": "null",
    "a list": '["watching", "kind"]',
    "two events in one": json.dumps({"run_id": "r", "kind": "step\ndata: {}\n\nevent: alert", "data": "{}"}),
    "two lines of data": json.dumps({"run_id": "r", "kind": "step", "data": "{}\n\nevent: alert"}),
    "no JSON": json.dumps({"run_id": "r", "kind": "step", "data": "{"}),
}


@pytest.mark.parametrize("message", FORGED.values(), ids=FORGED)
def test_a_forged_message_is_passed_over(message, caplog):
    """A client that can notify on the database ends no thread, and writes no event of its own into the stream."""
    relayed, receivers = [], []
    Relay(
        Broadcast(queue_size=4),
        open_channel=lambda receive, _: receivers.append(receive),
        on_relayed=lambda *given: relayed.append(given),
    )
    receivers[0](message)
    assert relayed == []
    assert "is not understood" in caplog.text


@postgres_only
def test_messages_that_are_never_finished_do_not_pile_up(database_url):
    """A part is kept for the next one of its sender, until more senders than there are collectors have begun."""
    heard, engine = [], sqlalchemy.create_engine(database_url)
    with contextlib.closing(Store.open(database_url)) as store:
        receiver = store.open_notifications(heard.append, lambda: None)
        receiver.start()
        eventually(lambda: receiver.is_listening)
        with engine.begin() as connection:
            heads = [f"{sender} 1 0 2 head" for sender in range(MAX_SENDERS + 1)]
            tails = [f"{sender} 1 1 2 tail" for sender in (0, MAX_SENDERS)]
            for payload in (*heads, *tails):
                connection.execute(sqlalchemy.text("SELECT pg_notify('rlvitals', :payload)"), {"payload": payload})
        eventually(lambda: heard)
        receiver.stop()
    engine.dispose()
    assert heard == ["headtail"]  # of the newest sender; the head of the first one was no longer kept
