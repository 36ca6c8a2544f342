"""Silences on PostgreSQL while another collector changes the same alerts: each change is made once, none is lost."""

import pytest

from monitor_server.alerts.silencing import Silencing
from monitor_server.settings import Settings
from monitor_server.store.repositories.silences import Silence
from tests.monitor_server.interrupted_stores import Between, waiting_for_a_lock
from tests.monitor_server.simulated_collectors import SimulatedCollector

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


@pytest.fixture
def collector(store, scripted, clock):
    return SimulatedCollector(store, scripted, clock, Settings(stall_minimum_seconds=1e9))


@pytest.fixture
def silencing(store, clock):
    return Silencing(store, clock=clock, on_changed=lambda _: None)


@pytest.fixture
def step(append, collector):
    def make_step(number, *, store=None, **signals):
        run_id = append(records=[{"step": number, "scalars": signals}])
        assert collector.project(run_id, store=store) is False
        return run_id

    return make_step


def add_silence(store, clock, **fields):
    now = clock.now
    named = {"project": "default", "run_id": None, "kind": None, "alert_id": None, "severity": "critical"}
    times = {"starts_at": now, "ends_at": now + 600, "created_at": now}
    with store.write() as repositories:
        repositories.silences.add(Silence(id="known", reason="", created_by="ann", **named | times | fields))


def seen(store, run_id):
    """Return the open alert of a run: its severity, its stage, and the changes in its history."""
    with store.read() as repositories:
        (alert,) = repositories.alerts.open(run_id)
        history = repositories.alert_history.page(run_id, alert.kind, limit=100)
        return alert.severity, alert.stage, [entry["change"] for entry in reversed(history)]


def test_two_collectors_that_release_an_alert_at_the_same_moment_release_it_once(
    store, clock, step, silencing, database_url
):
    """The one that waited finds that there is nothing left to do."""
    run_id = step(1, page=1.0)
    add_silence(store, clock)
    silencing.tick()
    with store.write() as repositories:
        repositories.silences.end("known", by="ann", now=clock.now)
    with store.write() as repositories:
        repositories.runs.lock(run_id)
        thread = waiting_for_a_lock(silencing.tick, database_url)
        silencing.apply(repositories)
    thread.join()
    assert seen(store, run_id) == ("critical", "firing", ["opened", "silenced", "silence_ended"])


def test_two_collectors_that_silence_an_alert_at_the_same_moment_silence_it_once(
    store, clock, step, silencing, database_url
):
    """The same for the beginning of a silence."""
    run_id = step(1, page=1.0)
    add_silence(store, clock)
    with store.write() as repositories:
        repositories.runs.lock(run_id)
        thread = waiting_for_a_lock(silencing.tick, database_url)
        silencing.apply(repositories)
    thread.join()
    assert seen(store, run_id) == ("critical", "silenced", ["opened", "silenced"])


def test_a_silence_of_warnings_does_not_cover_an_alert_that_is_raised_at_the_same_moment(
    store, clock, step, silencing, database_url
):
    """It was found as a warning, and is critical when its run can be locked."""
    run_id, threads = step(1, warn=1.0), []
    add_silence(store, clock, severity="warning")

    def begin_silence(_):
        threads.append(waiting_for_a_lock(silencing.tick, database_url))

    step(2, store=Between(store, at_end=begin_silence), page=1.0)
    threads[0].join()
    assert seen(store, run_id) == ("critical", "firing", ["opened", "raised"])


def test_a_step_that_read_an_alert_before_it_was_silenced_leaves_it_so(store, clock, step, silencing):
    """The silence is in its row when the step writes it, and begins once."""

    def begin_silence():
        add_silence(store, clock)
        silencing.tick()

    step(1, page=1.0)
    run_id = step(2, store=Between(store, before=begin_silence), page=1.0)
    assert seen(store, run_id) == ("critical", "silenced", ["opened", "silenced"])
    clock.now += 601
    silencing.tick()
    assert seen(store, run_id) == ("critical", "firing", ["opened", "silenced", "silence_ended"])


def test_a_silence_of_an_alert_that_is_resolved_at_the_same_moment_ends(store, clock, step, silencing):
    """Its person saw the alert open, and the step that resolves the alert saw no silence to end."""
    run_id = step(1, page=1.0)
    with store.read() as repositories:
        (alert,) = repositories.alerts.open(run_id)

    def silence(_):
        add_silence(store, clock, project=None, alert_id=alert.id, ends_at=None)

    step(2, store=Between(store, at_end=silence))
    silencing.tick()
    with store.read() as repositories:
        assert repositories.silences.find("known").ended_at == clock.now
        assert not repositories.silences.has_due(now=clock.now)


def test_an_alert_that_opens_while_a_silence_is_applied_is_silenced_some_seconds_later(store, clock, step, silencing):
    """Neither the step nor the silence sees the other one, because both are committed at the same moment."""

    def begin_silence(_):
        add_silence(store, clock)
        silencing.tick()

    step(1)
    run_id = step(2, store=Between(store, at_end=begin_silence), page=1.0)
    assert seen(store, run_id) == ("critical", "firing", ["opened"])
    clock.now += 5
    silencing.tick()
    assert seen(store, run_id) == ("critical", "silenced", ["opened", "silenced"])
    with store.read() as repositories:
        assert not repositories.silences.has_due(now=clock.now)
