"""What waits to be told while alerts, silences, runs and channels change: nothing is told that no longer holds."""

import json
from datetime import datetime
from itertools import count

import pytest
from sqlalchemy import select

from monitor_server.alerts.collector_alerts import PROJECT, RUN, RUN_ID
from monitor_server.notifications.channel_alerts import end_failure
from monitor_server.settings import Settings
from monitor_server.store.repositories.notifications.channel_status import FAILING_ATTEMPTS
from monitor_server.store.repositories.silences import Silence
from monitor_server.store.tables import notification_events
from tests.monitor_server.conftest import StepClock
from tests.monitor_server.notifications.notifying_collectors import NotifyingCollector, document_of, save
from tests.store_connections import current_connection
from trainer_hooks import wire

AT_ONCE = {"wait_seconds": 0, "window_seconds": 0}
ESCALATED = {"channels": ["hook"], "escalate": [{"after_minutes": 5, "channels": ["oncall"]}]}
NUMBERS = count()


class Notified:
    """A collector without threads, a run, and what the messages of its channels contain."""

    def __init__(self, store, append, engine, clock):
        self.store, self.append, self.engine, self.clock = store, append, engine, clock
        self.save()

    def collector(self, clock=None, **settings):
        """Return a collector, perhaps with a clock of its own."""
        settings = Settings(stall_minimum_seconds=1e9, **settings)
        return NotifyingCollector(self.store, self.engine, clock or self.clock, settings)

    def save(self, *, routes=(ESCALATED,), channels=("hook", "oncall", "spare"), **tables):
        """Save channels and routes."""
        document = document_of(channels, **{"routes": list(routes), "grouping": AT_ONCE} | tables)
        with self.store.write() as repositories:
            save(repositories, document, now=self.clock.now)

    def step(self, collector, number, **signals):
        """Record a step and project it; return the run's id."""
        return self.steps(collector, {number: signals})

    def steps(self, collector, signals):
        """Record some steps and project them in one slice; return the run's id."""
        run_id = self.append(records=[{"step": number, "scalars": scalars} for number, scalars in signals.items()])
        while collector.simulated.project(run_id):
            pass
        return run_id

    def silence(self, **fields):
        """Write a silence of the project, without applying it."""
        now = self.clock.now
        named = dict.fromkeys(("run_id", "kind", "alert_id")) | {"project": "default", "severity": "critical"}
        times = {"starts_at": now, "ends_at": now + 600, "created_at": now}
        id_ = f"silence{next(NUMBERS)}"
        with self.store.write() as repositories:
            repositories.silences.add(Silence(id=id_, reason="", created_by="ann", **named | times | fields))
        return id_

    def deliveries(self):
        """Return channel and change of each event that a message contains, in order."""
        event = notification_events.c
        query = select(event.channel, event.change).where(event.message_id.is_not(None))
        with self.store.read():
            return sorted(tuple(row) for row in current_connection().execute(query))


@pytest.fixture
def notified(store, append, scripted, clock):
    return Notified(store, append, scripted, clock)


def test_a_step_that_finds_a_silence_first_removes_what_waits(notified, clock):
    """The silence begins later, and a step is projected before the next tick."""
    collector = notified.collector()
    notified.step(collector, 1, page=1.0)
    notified.silence(starts_at=clock.now + 10)
    clock.now += 10
    notified.step(collector, 2, page=1.0)
    clock.now += 301
    collector.look()
    assert notified.deliveries() == []


def test_who_only_waited_for_an_escalation_is_not_told_of_the_end(notified, clock):
    """The escalation was due, and its channel was busy until the alert was resolved."""
    collector = notified.collector()
    notified.step(collector, 1, page=1.0)
    collector.look()
    clock.now += 301
    notified.step(collector, 2)
    collector.finish()
    collector.look()
    assert notified.deliveries() == [("hook", "opened"), ("hook", "resolved")]


@pytest.mark.parametrize("end", ["finished", "stopped", "given up"])
def test_an_alert_of_a_run_that_has_ended_is_escalated_if_the_run_goes_on(notified, clock, end):
    """Nobody is woken for a run that trains no more, but the end may be that of one job, and the next one goes on."""
    collector = notified.collector()
    run_id = notified.step(collector, 1, page=1.0)
    collector.look()
    collector.finish()
    if end == "given up":
        with notified.store.write() as repositories:
            run = repositories.runs.find(run_id)
            run.given_up_at = clock.now
            repositories.runs.save_ingest(run)
    else:
        notified.append(records=[], end=end)
    clock.now += 301
    collector.look()
    assert notified.deliveries() == [("hook", "opened")]
    with notified.store.read() as repositories:
        assert not repositories.notification_messages.has_due(["oncall"], now=clock.now)
        assert "waiting" not in repositories.channel_statuses.statuses(now=clock.now).get("oncall", {})
    notified.step(collector, 2, page=1.0)
    collector.look()
    assert notified.deliveries() == [("hook", "opened"), ("oncall", "unacknowledged")]


def test_an_end_is_told_where_the_clock_of_another_collector_is_some_seconds_ahead(notified, clock):
    """Neither the opening, which is due in the future, nor the end is lost."""
    ahead = notified.collector(StepClock(clock.now + 3))
    notified.step(ahead, 1, page=1.0)
    with notified.store.write() as repositories:  # as it stops
        ahead.simulated.projection.release(repositories)
    collector = notified.collector()
    notified.step(collector, 2)
    collector.look()
    assert notified.deliveries() == [("hook", "opened"), ("hook", "resolved")]  # in one message, never the end alone
    clock.now += 4
    assert len(collector.under_way) == 1


def test_a_channel_that_was_removed_is_not_told_of_an_end_when_it_is_back(notified):
    """The end of an alert is for the channels that were set up when it ended."""
    collector = notified.collector()
    notified.step(collector, 1, page=1.0)
    collector.look()
    collector.finish()
    notified.save(routes=[{"channels": ["spare"]}], channels=["spare"])
    collector.look()
    notified.step(collector, 2)
    notified.save()
    collector.look()
    assert notified.deliveries() == [("hook", "opened")]


def test_nothing_is_told_of_a_run_whose_deletion_has_begun(notified, clock):
    """Its rows are removed some time later."""
    collector = notified.collector()
    run_id = notified.step(collector, 1, page=1.0)
    with notified.store.write() as repositories:
        repositories.deletion.begin_deletion([run_id], now=clock.now)
    collector.look()
    assert notified.deliveries() == []
    with notified.store.read() as repositories:
        assert not repositories.notification_messages.has_due(["hook"], now=clock.now)


def test_a_fallback_is_told_on_time_and_at_once_of_what_opens_later(notified, clock):
    """Neither waits for the next attempt at the channel, which may be five minutes away or hang."""
    notified.save(routes=[{"channels": ["hook"]}], fallback={"channel": "spare", "after_minutes": 5})
    collector = notified.collector()
    notified.step(collector, 1, warn=1.0)
    collector.look()
    collector.finish("hook", error="it refuses")
    clock.now += 290
    collector.look()
    assert "hook" in collector.under_way  # it is tried again, and hangs
    clock.now += 10
    collector.look()
    collector.finish("spare")
    assert notified.deliveries() == [("hook", "opened"), ("spare", "opened")]
    notified.step(collector, 2, page=1.0)
    collector.look()
    assert notified.deliveries() == [("hook", "opened"), ("spare", "opened"), ("spare", "raised")]
    with notified.store.read() as repositories:
        assert not repositories.notification_redirection.has_late("spare", clock.now - 300, now=clock.now)


def test_a_fallback_is_not_told_of_what_was_silenced_after_the_message_was_formed(notified, clock):
    """It is told when the silence ends, if its channel fails still."""
    notified.save(routes=[{"channels": ["hook"]}], fallback={"channel": "spare", "after_minutes": 1})
    collector = notified.collector()
    run_id = notified.step(collector, 1, page=1.0)
    collector.look()
    silence = notified.silence()
    collector.silencing.tick()
    for _ in range(2):
        clock.now += 100
        collector.finish(error="it refuses")
        collector.look()
    assert notified.deliveries() == [("hook", "opened")]
    with notified.store.write() as repositories:
        repositories.silences.end(silence, by="ann", now=clock.now)
    collector.silencing.tick()
    collector.finish(error="it refuses")
    collector.look()
    assert notified.deliveries() == [("hook", "opened"), ("spare", "opened")]
    with notified.store.read() as repositories:
        assert [alert.stage for alert in repositories.alerts.firing(run_id)] == ["firing"]


def test_what_was_given_up_while_a_silence_lasted_is_told_when_it_ends(notified, clock):
    """The channel accepts messages again by then, and has never heard of the alert, which still fires."""
    notified.save(limits={"give_up_hours": 1})
    collector = notified.collector()
    notified.step(collector, 1, page=1.0)
    collector.look()
    silence = notified.silence(ends_at=clock.now + 86_400)
    collector.silencing.tick()
    clock.now += 3_601
    collector.finish(error="it refuses")
    with notified.store.write() as repositories:
        repositories.silences.end(silence, by="ann", now=clock.now)
    collector.silencing.tick()
    collector.look()
    assert list(collector.under_way) == ["hook"]
    assert notified.deliveries() == [("hook", "opened")]


def test_an_end_is_told_of_an_alert_that_was_open_for_longer_than_messages_are_kept(notified, clock):
    """An incident that a channel has opened for it elsewhere is closed there too; then the messages are removed."""
    collector = notified.collector()
    notified.step(collector, 1, page=1.0)
    collector.look()
    collector.finish()
    clock.now += 40 * 86_400
    with notified.store.write() as repositories:
        assert repositories.notification_messages.remove_old(before=clock.now) == 0
    notified.step(collector, 2, page=0.0)
    collector.look()
    assert ("hook", "resolved") in notified.deliveries()
    collector.finish()
    with notified.store.write() as repositories:
        assert repositories.notification_messages.remove_old(before=clock.now + 1) > 0
    assert notified.deliveries() == []


@pytest.mark.parametrize("resolved", [True, False])
def test_a_fallback_is_told_of_the_end_of_an_alert_if_the_route_wants_that(notified, clock, resolved):
    """No route names the fallback; it stands in for a channel of one."""
    route = {"channels": ["hook"], "resolved": resolved}
    notified.save(routes=[route], fallback={"channel": "spare", "after_minutes": 1})
    collector = notified.collector()
    notified.step(collector, 1, page=1.0)
    collector.look()
    clock.now += 100
    collector.finish(error="it refuses")
    collector.look()
    collector.finish()
    notified.step(collector, 2, page=0.0)
    collector.look()
    assert ("spare", "opened") in notified.deliveries()
    assert (("spare", "resolved") in notified.deliveries()) is resolved


@pytest.mark.parametrize(("signal", "is_told"), [("page", False), ("warn", True)])
def test_the_route_that_an_alert_matched_decides_whether_its_end_is_told(notified, signal, is_told):
    """The channel wants the ends of warnings alone."""
    critical = {"channels": ["hook"], "severity": "critical", "resolved": False}
    notified.save(routes=[critical, {"channels": ["hook"]}])
    collector = notified.collector()
    notified.step(collector, 1, **{signal: 1.0})
    collector.look()
    collector.finish("hook")
    notified.step(collector, 2)
    collector.look()
    assert (("hook", "resolved") in notified.deliveries()) is is_told


@pytest.mark.parametrize(("clock_time", "is_told"), [("05:50", True), ("21:50", False)])
def test_the_routes_that_notified_of_an_alert_decide_whether_its_end_is_told(notified, clock, clock_time, is_told):
    """The alert is raised in the hours of the other route, and the night wants no ends, whenever they are."""
    clock.now = datetime.fromisoformat(f"2026-12-01T{clock_time}Z").timestamp()
    night = {"channels": ["oncall"], "hours": "22:00-06:00", "resolved": False}
    notified.save(routes=[night, {"channels": ["oncall" if is_told else "hook"], "hours": "06:00-22:00"}])
    collector = notified.collector()
    for number, signals in enumerate([{"warn": 1.0}, {"page": 1.0}, {}]):
        notified.step(collector, number, **signals)
        collector.look()
        collector.finish()
        clock.now += 1_200
    assert ("oncall", "raised") in notified.deliveries()
    assert (("oncall", "resolved") in notified.deliveries()) is is_told


def test_the_route_after_a_silence_decides_whether_the_end_of_an_alert_is_told(notified, clock):
    """The alert opened by day, when another route without this channel was open."""
    clock.now = datetime.fromisoformat("2026-12-01T21:50Z").timestamp()
    night = {"channels": ["oncall"], "hours": "22:00-06:00", "resolved": False}
    notified.save(routes=[night, {"channels": ["hook"], "hours": "06:00-22:00"}])
    collector = notified.collector()
    notified.silence(ends_at=clock.now + 1_200)
    notified.step(collector, 1, page=1.0)
    clock.now += 1_201
    collector.silencing.tick()
    collector.look()
    collector.finish()
    notified.step(collector, 2)
    collector.look()
    assert notified.deliveries() == [("oncall", "opened")]


def test_who_was_told_before_a_silence_is_not_told_again_of_an_alert_that_was_pending(notified):
    """It fired because it became more severe, so that it opened for its readers at a later step."""
    collector = notified.collector(pending_steps=5)
    notified.step(collector, 1, warn=1.0)
    notified.step(collector, 2, page=1.0)
    collector.look()
    collector.finish()
    silence = notified.silence()
    collector.silencing.tick()
    with notified.store.write() as repositories:
        repositories.silences.end(silence, by="ann", now=notified.clock.now)
    collector.silencing.tick()
    collector.look()
    assert notified.deliveries() == [("hook", "opened")]


def test_an_alert_that_opens_and_ends_in_one_slice_is_silenced_all_the_same(notified):
    """A trainer sends several steps at once, or the collector was away."""
    collector = notified.collector()
    notified.silence()
    run_id = notified.steps(collector, {1: {"page": 1.0}, 2: {}})
    collector.look()
    assert notified.deliveries() == []
    with notified.store.read() as repositories:
        history = repositories.alert_history.page(run_id, "scripted", limit=10)
    assert [entry["change"] for entry in reversed(history)] == ["opened", "silenced", "resolved"]


def test_an_alert_that_outgrows_its_silence_and_ends_in_one_slice_is_told(notified):
    """The silence covers warnings only."""
    collector = notified.collector()
    notified.silence(severity="warning")
    notified.step(collector, 1, warn=1.0)
    notified.steps(collector, {2: {"page": 1.0}, 3: {}})
    collector.look()
    assert notified.deliveries() == [("hook", "raised"), ("hook", "resolved")]


def test_an_alert_that_is_raised_in_the_slice_that_opens_it_is_told_once(notified):
    """It opens with the severity that it has when the slice is written."""
    collector = notified.collector()
    notified.steps(collector, {1: {"warn": 1.0}, 2: {"page": 1.0}})
    collector.look()
    assert notified.deliveries() == [("hook", "opened")]


def test_a_channel_that_is_set_up_again_does_not_fail_because_of_what_it_refused_before(notified):
    """The message that it had refused was dropped when it was removed."""
    collector = notified.collector()
    notified.step(collector, 1, page=1.0)
    collector.look()
    collector.finish(error="it refuses")
    notified.save(routes=[{"channels": ["spare"]}], channels=["spare"])
    collector.look()
    notified.save()
    collector.look()
    with notified.store.read() as repositories:
        assert repositories.channel_statuses.failing(["hook"]) == {}
        assert "hook" not in repositories.channel_statuses.statuses(now=notified.clock.now)


@pytest.mark.parametrize("change", ["corrected", "corrected while the collector is stopped", "removed"])
def test_a_channel_does_not_fail_because_of_what_its_former_address_did(notified, clock, change):
    """The message was given up. Then the channel is corrected, or another one gets its name."""
    notified.save(routes=[{"channels": ["hook"]}], limits={"give_up_hours": 0.01})
    collector = notified.collector()
    notified.step(collector, 1, page=1.0)
    collector.look()
    clock.now += 60
    collector.finish(error="it refuses")
    with notified.store.read() as repositories:
        assert repositories.channel_statuses.failing(["hook"]) == {"hook": "it refuses"}
        assert repositories.channel_statuses.statuses(now=clock.now)["hook"]["last_error"] == "it refuses"
        assert [alert.kind for alert in repositories.alerts.open(RUN_ID)] == ["channel_failing:hook"]
    collector.restart()
    collector.look()
    with notified.store.read() as repositories:
        assert repositories.channel_statuses.failing(["hook"]) == {"hook": "it refuses"}
    if change == "removed":
        notified.save(routes=[{"channels": ["spare"]}], channels=["spare"])
        collector.look()
        notified.save(routes=[{"channels": ["hook"]}])
    else:
        corrected = document_of(["hook"], routes=[{"channels": ["hook"]}])
        corrected["channels"]["hook"]["url"] = "https://corrected.example.org/"
        with notified.store.write() as repositories:
            save(repositories, corrected, now=clock.now)
    if change == "corrected while the collector is stopped":
        collector.restart()
    collector.look()
    with notified.store.read() as repositories:
        assert repositories.channel_statuses.failing(["hook"]) == {}
        assert repositories.alerts.open(RUN_ID) == []


def test_what_a_channel_has_refused_is_sent_at_once_when_a_test_is_accepted(notified, clock):
    """It fails no longer, and does not wait for the minutes between two attempts."""
    collector = notified.collector()
    notified.step(collector, 1, page=1.0)
    for seconds in (60, 60, 0):
        collector.look()
        collector.finish(error="it refuses")
        clock.now += seconds
    with notified.store.write() as repositories:
        assert repositories.channel_statuses.failing(["hook"]) == {"hook": "it refuses"}
        assert [alert.state for _, alert in end_failure(repositories, "hook", now=clock.now)] == ["resolved"]
        assert repositories.channel_statuses.failing(["hook"]) == {}
        assert repositories.channel_statuses.statuses(now=clock.now)["hook"]["last_error"] is None
    collector.look()
    collector.finish()
    assert notified.deliveries() == [("hook", "opened")]


def test_an_event_behind_a_refused_message_is_no_work_until_the_message_is_tried_again(notified, clock):
    """The thread of notifications looks twice a second, and begins no transaction that writes meanwhile."""
    collector = notified.collector()
    notified.step(collector, 1, page=1.0)
    collector.look()
    collector.finish(error="it refuses")
    notified.step(collector, 2)  # the alert is resolved
    has_due = []
    for seconds in (0, 3600):
        clock.now += seconds
        with notified.store.read() as repositories:
            has_due.append(repositories.notification_messages.has_due(["hook"], now=clock.now))
    assert has_due == [False, True]


def test_a_receiver_that_refuses_everything_for_a_while_is_told_of_all_alerts_afterwards(notified, clock):
    """Its key was wrong: it refuses the message that only counts, too, and nothing is given up for what waits."""
    collector = notified.collector()
    notified.step(collector, 1, warn=1.0)
    for _ in range(FAILING_ATTEMPTS):
        collector.look()
        collector.finish(error="400", is_refusal=True)
        clock.now += 60
    notified.step(collector, 2, page=1.0)
    collector.look()
    collector.finish(error="400", is_refusal=True)
    with notified.store.read() as repositories:
        assert repositories.channel_statuses.failing(["hook"]) == {"hook": "400"}
    clock.now += 3600
    collector.look()
    counting = json.loads(collector.under_way["hook"][0].body)
    assert (counting["counts"]["alerts"], counting["alerts"]) == (1, [])
    collector.finish()
    collector.look()
    assert json.loads(collector.under_way["hook"][0].body)["alerts"][0]["changes"] == ["raised"]


def test_a_failure_after_the_end_of_a_claim_changes_nothing_that_another_collector_has_stored(notified, clock):
    """The first was suspended during its delivery, and the second has delivered the message in its place."""
    notified.save(routes=[{"channels": ["hook"]}], fallback={"channel": "spare", "after_minutes": 1})
    suspended, other = notified.collector(), notified.collector()
    notified.step(suspended, 1, page=1.0)
    suspended.look()
    clock.now += 91
    other.look()
    other.finish()
    suspended.finish(error="the receiver did not answer")
    other.look()
    assert notified.deliveries() == [("hook", "opened")]
    with notified.store.read() as repositories:
        assert repositories.channel_statuses.statuses(now=clock.now)["hook"]["last_error"] is None


def test_a_failure_is_stored_while_the_run_of_the_alerts_about_the_collector_is_deleted(notified, clock):
    """Somebody deletes it while a channel fails: the fallback is told of the alert all the same."""
    notified.save(routes=[{"channels": ["hook"]}], fallback={"channel": "spare", "after_minutes": 1})
    collector = notified.collector()
    notified.step(collector, 1, page=1.0)
    for attempt in range(4):
        if attempt == 3:  # the alert about the channel has opened
            with notified.store.write() as repositories:
                repositories.deletion.begin_deletion([wire.run_id(PROJECT, RUN)], now=clock.now)
        collector.look()
        clock.now += 15
        collector.finish("hook", error="it refuses")
        clock.now += 15
    collector.look()
    assert ("spare", "opened") in notified.deliveries()
