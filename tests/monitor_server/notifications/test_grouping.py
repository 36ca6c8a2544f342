"""Grouping loses no alert and doubles none, and keeps to its limits."""

import json
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor_server.alerts.changes.transitions import AlertTransition
from monitor_server.notifications.configuration.tables import Grouping, Limits, NotificationFile
from monitor_server.notifications.messages.body import MAX_ALERTS
from monitor_server.notifications.planning import next_message_at, retry_delay
from monitor_server.notifications.routing import Router
from monitor_server.notifications.worker import NotificationWorker
from monitor_server.store.repositories.alerts import Alert

NUMBERS = count()
SEVERITIES = ("info", "warning", "critical")


def file_of(messages_per_hour=30, **grouping):
    return NotificationFile.model_validate(
        {
            "version": 1,
            "channels": {"app": {"type": "apprise", "url": "json://x"}},
            "routes": [{"channels": ["app"], "severity": "info"}],
            "grouping": grouping,
            "limits": {"messages_per_hour": messages_per_hour},
        }
    )


def alert_of(run_id, kind, severity, now):
    return Alert(
        id=f"alert{next(NUMBERS)}", run_id=run_id, kind=kind, severity=severity, phase="healthy", opened_step=1,
        severity_step=1, last_step=1, opened_at=now, summary="a summary", evidence={}, state="resolved",
    )  # fmt: skip


@pytest.fixture
def planned(store, append, clock):
    """Record the opening of alerts, and form messages; return the bodies of all that were formed and accepted."""
    run_id = append(records=[{"step": 0, "scalars": {"a": 1.0}}])

    class Planned:
        def __init__(self, **grouping):
            self.run_id = run_id
            self.file = file_of(**grouping)
            self.worker = NotificationWorker(store, lambda: self.file, public_url="http://x", clock=clock)
            self.bodies = []

        def open(self, *severities, run_id=run_id):
            transitions = []
            for severity in severities:
                alert = alert_of(run_id, f"kind{next(NUMBERS)}", severity, clock.now)
                transitions.append(AlertTransition(change="opened", alert=alert, at=clock.now))
            with store.write() as repositories:
                run = repositories.runs.find(run_id)
                for transition in transitions:
                    repositories.alerts.add(transition.alert)
                Router(lambda _: self.file).record(repositories, run, transitions)
            return [transition.alert.id for transition in transitions]

        def change(self, change, alert):
            with store.write() as repositories:
                if change == "opened":
                    repositories.alerts.add(alert)
                transition = AlertTransition(change=change, alert=alert, at=clock.now)
                Router(lambda _: self.file).record(repositories, repositories.runs.find(run_id), [transition])

        def look(self, *, accepts=True):
            with store.write() as repositories:
                self.worker.plan(repositories)
                for message in repositories.notification_messages.claim(
                    channels=["app"], now=clock.now, until=clock.now
                ):
                    if accepts:
                        self.bodies.append(json.loads(message.body))
                        repositories.notification_messages.mark_sent(message.id, now=clock.now)

    return Planned


def test_a_message_is_as_urgent_as_what_has_not_merely_ended(planned, clock):
    """A critical alert that is over does not wake anybody: the warning that fires is in the title and comes first."""
    grouped = planned(wait_seconds=0, window_seconds=60)
    clock.now += 7200
    over = replace(alert_of(grouped.run_id, "death_spiral", "critical", clock.now), id="over")
    grouped.change("opened", over)
    grouped.look()
    clock.now += 61
    grouped.change("resolved", over)
    grouped.change("opened", replace(alert_of(grouped.run_id, "plateau", "warning", clock.now), state="firing"))
    grouped.look()
    clock.now += 61
    first, second = grouped.bodies
    assert first["title"].startswith("[CRITICAL] death_spiral")
    assert second["title"].startswith("[WARNING] 2 alerts")
    assert [alert["kind"] for alert in second["alerts"]] == ["plateau", "death_spiral"]


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    arrivals=st.lists(
        st.tuples(st.floats(0, 100), st.lists(st.sampled_from(SEVERITIES), max_size=4), st.booleans()), max_size=15
    )
)
def test_each_alert_is_in_one_message_whenever_it_opens(planned, clock, arrivals):
    """This holds for any times of opening and any number of refusals of the receiver."""
    grouped, opened = planned(wait_seconds=0, window_seconds=60), []
    clock.now += 7200
    for seconds, severities, accepts in arrivals:
        clock.now += seconds
        opened += grouped.open(*severities)
        grouped.look(accepts=accepts)
    for _ in range(3):
        clock.now += 3601
        grouped.look()
    named = [alert["id"] for body in grouped.bodies for alert in body["alerts"]]
    assert sorted(named) == sorted(opened)
    assert sum(body["counts"]["alerts"] for body in grouped.bodies) == len(opened)


def test_hundreds_of_alerts_in_a_minute_are_few_messages_and_none_is_lost(planned, clock):
    """Each is named or counted: three bursts, each of more alerts than a body names, make two messages."""
    burst = MAX_ALERTS + 10
    grouped = planned()
    clock.now += 7200
    for _ in range(3):
        grouped.open(*["critical"] * burst)
        clock.now += 6
        grouped.look()
    clock.now += 60
    grouped.look()
    assert [body["counts"]["alerts"] for body in grouped.bodies] == [burst, 2 * burst]
    assert [len(body["alerts"]) + body["omitted_alerts"] for body in grouped.bodies] == [burst, 2 * burst]


def test_a_message_about_many_alerts_fits_a_receiver_that_takes_100_kilobytes(planned, clock):
    """It names as many as fit, although their summaries are long and their characters take six bytes each."""
    grouped = planned()
    clock.now += 7200
    for _ in range(MAX_ALERTS):
        long = replace(alert_of(grouped.run_id, f"kind{next(NUMBERS)}", "critical", clock.now), summary="長" * 400)
        grouped.change("opened", long)
    clock.now += 6
    grouped.look()
    (body,) = grouped.bodies
    assert len(json.dumps(body)) < 100_000
    assert 0 < len(body["alerts"]) < MAX_ALERTS
    assert len(body["alerts"]) + body["omitted_alerts"] == MAX_ALERTS


def test_a_message_about_many_projects_with_long_names_fits_it_too(planned, append, clock):
    """It counts the alerts of as many projects as fit, those with the most alerts first, and counts all alerts."""
    grouped = planned()
    clock.now += 7200
    for number in range(40):
        project = f"{number:02d}{'名' * 198}"
        grouped.open("warning", run_id=append(project=project, records=[{"step": 0, "scalars": {"a": 1.0}}]))
    grouped.open("warning")
    grouped.open("warning")
    clock.now += 6
    grouped.look()
    (body,) = grouped.bodies
    assert len(json.dumps(body)) < 100_000
    assert (body["counts"]["alerts"], body["counts"]["runs"]) == (42, 41)
    assert 1 < len(body["counts"]["projects"]) < 40
    assert body["counts"]["projects"]["default"] == 2


def test_a_critical_alert_of_one_project_does_not_wait_behind_those_of_another(planned, append, clock):
    """The messages about its own project alone count against the limit of an hour, and many alerts leave it a place."""
    theirs = append(run="theirs", project="theirs", records=[{"step": 0, "scalars": {"a": 1.0}}])
    grouped = planned(messages_per_hour=3, wait_seconds=0, window_seconds=60)
    clock.now += 7200

    def projects():
        clock.now += 61
        before = len(grouped.bodies)
        grouped.look()
        return [[alert["project"] for alert in body["alerts"]] for body in grouped.bodies[before:]]

    for _ in range(3):
        grouped.open("critical")
        assert projects() == [["default"]]
    grouped.open(*["critical"] * MAX_ALERTS)
    grouped.open("warning", run_id=theirs)
    assert projects() == []
    for _ in range(3):
        grouped.open("critical", run_id=theirs)
        assert projects()[0][:2] in (["default", "theirs"], ["theirs"])
    grouped.open("critical", run_id=theirs)
    assert projects() == []
    clock.now += 3600
    assert projects() == [["theirs"]]


@pytest.mark.parametrize(
    ("rank", "recent", "expected"),
    [
        (1, [], 100.5),
        (1, [(90.0, "warning")], 150.0),
        (2, [(90.0, "warning")], 100.5),
        (2, [(90.0, "critical")], 150.0),
        (2, [(10.0, "warning"), (20.0, "warning")], 3610.0),
        (2, [(5.0, "info"), (10.0, "warning"), (20.0, "warning")], 3610.0),
    ],
)
def test_when_the_next_message_may_go(rank, recent, expected):
    """After the wait, the window unless it is more severe, and the limit of two messages an hour."""
    grouping, limits = Grouping(window_seconds=60), Limits(messages_per_hour=2)
    assert next_message_at(since=100.0, rank=rank, recent=recent, grouping=grouping, limits=limits) == expected


def test_retries_wait_twice_as_long_each_time_to_five_minutes():
    """In the middle of their jitter, and between half and one and a half of it."""
    assert [retry_delay(attempts, jitter=0.5) for attempts in (1, 2, 3, 4)] == [2.0, 4.0, 8.0, 16.0]
    assert retry_delay(10_000, jitter=0.5) == retry_delay(10_000, jitter=1.0) == 300.0
    assert (retry_delay(1, jitter=0.0), retry_delay(1, jitter=1.0)) == (1.0, 3.0)
