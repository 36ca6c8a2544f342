"""The stream: steps, alerts and runs are pushed after their commit, and a slow reader learns how many it missed."""

import asyncio
import json
import socket

from monitor_server.api.live_events import hand_over
from monitor_server.api.live_events.broadcast import Broadcast
from monitor_server.api.live_events.events import RenderedEvent
from monitor_server.app import create_app
from monitor_server.settings import Settings
from monitor_server.step_processing.events import StepCompleted
from monitor_server.store.repositories.steps import Step
from tests.live import PATIENCE_SECONDS, eventually, listening


def test_a_step_is_pushed_after_it_is_committed(start_collector, scripted):
    """A reader of the event can read the step; a new run, its step and its alert arrive."""
    live = start_collector(engine=scripted)
    with listening(live) as events:
        run_id = live.run(run="r", records=[{"step": 4, "time": 5.0, "scalars": {"warn": "Infinity"}}])
        pushed = {}
        while not {"run", "step", "alert"} <= pushed.keys():
            kind, data = next(events)
            pushed[kind] = data
    assert pushed["step"] == {
        "run_id": run_id,
        "attempt": 1,
        "step": 4,
        "time": 5.0,
        "phase": "healthy",
        "signals": {"warn": "Infinity"},
        "last_seen": live.get(f"/runs/{run_id}")["last_seen"],
    }
    assert (pushed["run"]["id"], pushed["run"]["status"], pushed["run"]["last_step"]) == (run_id, "running", 4)
    assert (pushed["alert"]["kind"], pushed["alert"]["state"], pushed["alert"]["run"]) == ("scripted", "firing", "r")
    assert live.get(f"/runs/{run_id}/steps")["items"][0]["step"] == 4


def test_a_pushed_alert_names_its_suspect_and_what_makes_its_numbers_doubtful(collector, run_name):
    """NaN after three rows of impossible likelihoods: the event and the list say that the instrument comes first."""
    wrong = {"likelihood/correct": 0.4}
    run_id = collector.run(run=run_name, records=[{"step": step, "scalars": wrong} for step in range(3)])
    with listening(collector, run_id=run_id) as events:
        collector.send(run=run_name, records=[{"step": 3, "scalars": wrong | {"grad/norm": "NaN"}}])
        pushed = next(data for kind, data in events if kind == "alert" and data["kind"] == "non_finite")
    (listed,) = [each for each in collector.get(f"/runs/{run_id}/alerts")["items"] if each["kind"] == "non_finite"]
    for alert in (pushed, listed):
        assert (alert["suspect"], alert["instrument_alerts"]) == ("unknown", ["impossible_likelihood"])


def test_what_somebody_writes_about_a_run_and_its_deletion_are_pushed(collector, run_name):
    """Other pages on which it is open follow; a run that is deleted with its project is named too."""
    first, second = (collector.run(run=f"{run_name}-{n}", project=run_name) for n in range(2))
    ids = {first, second}
    with listening(collector) as events:
        named = ((data.get("run_id") or data["id"], data) for kind, data in events if kind in {"run", "deleted"})
        changes = (data for run_id, data in named if run_id in ids)
        send = collector.pool.request
        send("PATCH", f"{collector.url}/api/v1/runs/{first}", json={"title": "renamed", "archived": True})
        changed = next(data for data in changes if data.get("title"))
        assert (changed["id"], changed["title"], changed["archived"]) == (first, "renamed", True)
        send("DELETE", f"{collector.url}/api/v1/runs/{first}?force=true")
        assert next(data for data in changes if "run_id" in data) == {"run_id": first}
        send("DELETE", f"{collector.url}/api/v1/projects/{run_name}?force=true")
        assert next(data for data in changes if "run_id" in data) == {"run_id": second}


def test_a_subscriber_to_one_run_hears_of_no_other(collector, run_name):
    """A subscriber to one run receives no event of another run."""
    run_id = collector.run(run=run_name)
    with listening(collector, run_id=run_id) as events:
        collector.send(run=f"{run_name}-other", records=[{"step": 0, "scalars": {"a": 0.0}}])
        collector.send(run=run_name, records=[{"step": 1, "time": 5.0, "scalars": {"a": 1.0}}])
        heard = next(data for kind, data in events if kind == "step")
    assert (heard["run_id"], heard["step"], heard["time"]) == (run_id, 1, 5.0)
    assert heard["last_seen"] == collector.get(f"/runs/{run_id}")["last_seen"]


def test_streams_end_when_the_collector_does(start_collector):
    """A stream that is open does not keep the collector's process alive."""
    live = start_collector()
    with listening(live) as events:
        live.stop()
        assert list(events) == []


def test_a_reader_that_goes_away_is_forgotten(start_collector):
    """The collector holds nothing for a subscriber whose connection is closed."""
    live = start_collector()
    broadcast = live.app.state.collector.broadcast
    host, port = live.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        eventually(lambda: broadcast.has_subscribers)
    eventually(lambda: not broadcast.has_subscribers)


def test_a_reader_that_goes_away_while_events_wait_for_it_is_no_error(database_url, caplog):
    """A browser that is closed while an event is on its way leaves no traceback in the log of the collector."""
    app = create_app(Settings(database_url=database_url, dashboard=""))
    scope = {
        "type": "http",
        "scheme": "http",
        "method": "GET",
        "path": "/api/v1/stream",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
    }
    sent = []

    async def listen():
        has_begun = asyncio.Event()

        async def receive():
            await has_begun.wait()
            for _ in range(100):  # turns of the loop, in which events fill each place on the way to the client
                app.state.collector.broadcast.publish_rendered(None, RenderedEvent(kind="step", data="0"))
                await asyncio.sleep(0)
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)
            if message.get("body"):
                has_begun.set()
                await asyncio.Event().wait()  # the client does not read

        async with app.router.lifespan_context(app):
            await app(scope, receive, send)
            assert not app.state.collector.broadcast.has_subscribers

    asyncio.run(listen())
    assert [message.get("body") for message in sent] == [None, b": listening\n\n"]
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def _heard(steps, *, count, queue_size):
    """Publish steps one by one while the event loop is busy; return what a subscriber hears, and how many waited."""

    async def listen():
        broadcast = Broadcast(queue_size=queue_size)
        broadcast.open(asyncio.get_running_loop())
        with broadcast.subscribe() as subscription:
            for step in steps:
                broadcast.publish([StepCompleted(run_id="r", attempt=1, phase="healthy", last_seen=0.0, step=step)])
            waiting = broadcast.published_events
            heard = []
            async for event in subscription:
                data = json.loads(event.data)
                heard.append((event.kind, data.get("count", data.get("step"))))
                if len(heard) == count:
                    broadcast.close()
            return heard, waiting

    return asyncio.run(listen())


FIVE_STEPS = [Step(step=number, attempt=7, time=0.0, signals={}) for number in range(5)]


def test_a_slow_subscriber_loses_the_oldest_and_learns_how_many():
    """Of five events a queue of two keeps the last two, after an event that three were dropped."""
    assert _heard(FIVE_STEPS, count=3, queue_size=2)[0] == [("dropped", 3), ("step", 3), ("step", 4)]


def test_an_event_loop_that_is_late_loses_the_oldest_and_subscribers_learn_of_it(monkeypatch):
    """Of five events three may wait for the loop."""
    monkeypatch.setattr(hand_over, "MAX_EVENTS", 3)
    heard, waiting = _heard(FIVE_STEPS, count=4, queue_size=9)
    assert (heard, waiting) == ([("dropped", 1), ("step", 2), ("step", 3), ("step", 4)], 3)


def test_a_subscriber_learns_of_a_gap_that_no_event_follows():
    """The missed event may have been the last one of its run, and an open page reads nothing by itself."""

    async def listen():
        broadcast = Broadcast(queue_size=9)
        broadcast.open(asyncio.get_running_loop())
        with broadcast.subscribe() as subscription:
            broadcast.report_gap()
            return await asyncio.wait_for(anext(aiter(subscription)), PATIENCE_SECONDS)

    assert asyncio.run(listen()) == RenderedEvent(kind="dropped", data='{"count": 1}')


def test_many_events_are_delivered_some_at_a_time_and_in_order(monkeypatch):
    """The loop does its other work in between."""
    monkeypatch.setattr(hand_over, "EVENTS_AT_ONCE", 2)
    assert _heard(FIVE_STEPS, count=5, queue_size=9) == ([("step", number) for number in range(5)], 5)
