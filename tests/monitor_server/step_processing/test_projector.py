"""The projector's thread, directly on a store: its published events, its wake-ups, and the cost of a failing run."""

import time
from pathlib import Path

import psycopg
import pytest
import sqlalchemy

from monitor_server.settings import Settings
from monitor_server.step_processing import log_entries
from monitor_server.step_processing.events import AlertChanged, StepCompleted
from monitor_server.step_processing.ownership import OWNER_SECONDS
from monitor_server.step_processing.projector import LATE_TICK_SECONDS, Projector
from monitor_server.step_processing.scheduling import known_verdicts
from monitor_server.step_processing.scheduling.busy_share import BusyShare
from monitor_server.step_processing.slices.projection import Projection
from monitor_server.step_processing.status_changes import REFUSED_SECONDS
from monitor_server.step_processing.steps import budget
from monitor_server.step_processing.steps.detection import Tracker
from tests.databases import sqlite_only
from tests.live import PATIENCE_SECONDS, eventually
from tests.monitor_server.conftest import StepClock
from tests.monitor_server.interrupted_stores import Between


class Broken(Tracker):
    """Detection that fails outside of a detector on runs named ``broken``, from the step of the signal ``fail`` on."""

    def observe(self, context, step):
        """Raise an error, or detect."""
        if context.run.name == "broken" and step.step >= step.signals.get("fail", 0.0):
            raise ArithmeticError("no detection of this run")
        return super().observe(context, step)


@pytest.fixture
def published():
    """The events that were published, in order."""
    return []


@pytest.fixture
def ahead():
    """The seconds by which the projector's clock is ahead."""
    return [0.0]


@pytest.fixture
def projector(store, scripted, clock, published, ahead):
    """A projector that is not started yet."""
    settings = Settings()
    projection = Projection(Broken(scripted), settings=settings, clock=clock)
    created = Projector(
        store,
        projection,
        settings=settings,
        clock=clock,
        publish=published.extend,
        monotonic=lambda: time.monotonic() + ahead[0],
    )
    yield created
    created.stop()


def test_a_waiter_is_woken_when_its_position_is_projected(projector, append, published, store):
    """The events of the slice are published after its commit, and the verdict is known."""
    run_id = append(records=[{"step": 1}, {"step": 2, "scalars": {"warn": 1.0}}])
    with store.read() as repositories:
        end = repositories.runs.find(run_id).log_end
    projector.start()
    projector.wait_for(run_id, end).result(PATIENCE_SECONDS)
    verdict = projector.known_verdict(run_id)
    assert (verdict.step, [alert.kind for alert in verdict.alerts]) == (2, ["scripted"])
    eventually(lambda: [event.step.step for event in published if isinstance(event, StepCompleted)] == [1, 2])


def test_runs_that_were_appended_before_the_start_are_projected(projector, append, published):
    """This happens after a restart of the collector: nobody has notified the projector of them."""
    append(records=[{"step": 3}])
    projector.start()
    eventually(lambda: [event.step.step for event in published if isinstance(event, StepCompleted)] == [3])


def test_steps_that_a_stop_has_left_are_completed_after_the_start(projector, store, scripted, clock, append):
    """The log was read to its end, so no batch and, until the deadline of a step, no clock announces them."""
    run_id = append(records=[{"step": step} for step in range(300)])
    assert Projection(Tracker(scripted), settings=Settings(), clock=clock).project(store, run_id).has_more
    clock.now += OWNER_SECONDS
    projector.start()
    eventually(lambda: (verdict := projector.known_verdict(run_id)) is not None and verdict.step == 299)


def test_a_run_whose_slice_was_refused_is_projected_anew_at_once(store, scripted, clock, append):
    """Its log is read to the end, so that nothing but its turn completes the steps that are left."""
    run_id = append(records=[{"step": step} for step in range(300)])
    projection = Projection(Tracker(scripted), settings=Settings(), clock=clock)
    assert projection.project(store, run_id).has_more
    with store.read() as repositories:
        run = repositories.runs.find(run_id)
    assert (run.position, run.last_step < 299) == (run.log_end, True)

    def thin():  # as retention and a reset do, it makes a slice that is under way void
        with store.write() as repositories:
            repositories.step_thinning.thin_steps(run_id, most=1000)

    interrupted = Between(store, before=thin)
    projector = Projector(interrupted, projection, settings=Settings(), clock=clock, publish=lambda _: None)
    projector.notify([run_id])
    projector.start()
    try:
        eventually(lambda: (verdict := projector.known_verdict(run_id)) is not None and verdict.step == 299)
    finally:
        projector.stop()


def test_a_run_that_cannot_be_projected_is_quarantined_alone(projector, append, published, store):
    """Its waiter is woken without a verdict, an alert opens, and the run beside it is projected."""
    broken, well = append(run="broken", records=[{"step": 1}]), append(run="well", records=[{"step": 1}])
    waiters = [projector.wait_for(run_id, 1) for run_id in (broken, well)]
    projector.start()
    for waiter in waiters:
        waiter.result(PATIENCE_SECONDS)
    eventually(lambda: any(isinstance(event, AlertChanged) and event.run == "broken" for event in published))
    with store.read() as repositories:
        assert repositories.runs.find(broken).quarantine_reason == "ArithmeticError: no detection of this run"
        assert repositories.runs.find(broken).last_step is None
        assert repositories.runs.find(well).last_step == 1
    assert projector.is_alive


def test_the_verdict_before_a_quarantine_is_not_kept(projector, append, store):
    """It lacks the critical alert of the quarantine, which the store has, and a trainer may have to stop for it."""
    run_id = append(run="broken", records=[{"step": 1, "scalars": {"fail": 2.0}}])
    projector.start()
    eventually(lambda: projector.known_verdict(run_id))
    append(run="broken", records=[{"step": 2}])
    projector.wait_for(run_id, 2**60).result(PATIENCE_SECONDS)
    assert projector.known_verdict(run_id) is None
    with store.read() as repositories:
        assert [alert.kind for alert in repositories.alerts.firing(run_id)] == ["monitor_degraded"]


def test_the_steps_before_the_one_on_which_detection_fails_are_projected(projector, append, store):
    """They are in the batch and in the slice that fails."""
    run_id = append(run="broken", records=[{"step": step, "scalars": {"fail": 20.0}} for step in range(30)])
    projector.start()

    def find():
        with store.read() as repositories:
            return repositories.runs.find(run_id)

    eventually(lambda: find().quarantine_reason)
    assert find().last_step == 19


def test_a_projector_that_is_stopped_has_ended_its_thread(projector, append):
    """A stop before the start, and a second stop, do nothing."""
    append(records=[{"step": 1}])
    projector.start()
    assert projector.is_alive
    projector.stop()
    assert not projector.is_alive
    projector.stop()


@sqlite_only
def test_a_database_that_fails_is_not_taken_for_a_projector_that_hangs(projector, database_url, ahead):
    """The reason is that of the database, also where no step waits, and it ends with the fault."""
    path = Path(sqlalchemy.make_url(database_url).database)
    away = path.rename(path.with_suffix(".away"))
    ahead[0] += LATE_TICK_SECONDS
    projector.start()
    eventually(lambda: projector.is_alive)
    assert "was removed or replaced" in projector.recent_failure
    away.rename(path)
    eventually(lambda: projector.recent_failure is None)


@pytest.fixture
def fail(database_url):
    """Return a function that lets the database refuse what is written to runs, and returns one that ends this."""
    if database_url.startswith("sqlite"):
        path = Path(sqlalchemy.make_url(database_url).database)

        def hide():
            away = path.rename(path.with_suffix(".away"))
            return lambda: away.rename(path)

        yield hide
        return
    with psycopg.connect(database_url.replace("+psycopg", ""), autocommit=True) as connection:

        def fill():
            connection.execute(
                "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END $$"
            )
            for table in ("runs", "alembic_version"):
                connection.execute(f"CREATE TRIGGER full_disk BEFORE UPDATE ON {table} EXECUTE FUNCTION full_disk()")
            return lambda: connection.execute("DROP FUNCTION full_disk() CASCADE")

        yield fill


def _announced(store, run_id):
    with store.read() as repositories:
        return repositories.runs.find(run_id).announced


def test_a_trainer_that_the_database_refused_has_time_to_send_again(fail, projector, append, clock, store):
    """Its run is not lost in the moment in which writes succeed again, but two minutes later, if nothing has come."""
    run_id = append(records=[{"step": 1}])
    projector.start()
    eventually(lambda: projector.known_verdict(run_id) is not None)
    repair = fail()
    clock.now += 10_000
    seen = sum(store.faults.counts().values())
    eventually(lambda: sum(store.faults.counts().values()) >= seen + 2)
    repair()
    other = append(run="other", records=[{"step": 1}])
    projector.notify([run_id, other])
    eventually(lambda: projector.known_verdict(other) is not None)
    assert _announced(store, run_id) == "running"
    clock.now += REFUSED_SECONDS
    eventually(lambda: _announced(store, run_id) == "lost")


def test_no_run_becomes_silent_while_batches_are_refused(store, scripted, clock, append):
    """The projector, which has nothing to write, has seen no fault."""
    run_id, refused, ticks, settings = append(records=[{"step": 1}]), ["a batch"], [], Settings(tick_seconds=0.05)
    projection = Projection(Tracker(scripted), settings=settings, clock=clock)
    options = {"clock": clock, "publish": lambda _: None, "on_tick": lambda: ticks.append(clock.now)}
    projector = Projector(store, projection, settings=settings, is_refusing=lambda: bool(refused), **options)
    projector.start()
    try:
        eventually(lambda: projector.known_verdict(run_id))
        clock.now += 10_000
        eventually(lambda: ticks.count(clock.now) >= 3)
        assert _announced(store, run_id) == "running"
        refused.clear()
        ticks.clear()
        eventually(lambda: len(ticks) >= 2)  # the first one may have begun before
        clock.now += REFUSED_SECONDS
        eventually(lambda: _announced(store, run_id) == "lost")
    finally:
        projector.stop()


def test_the_queue_of_runs_is_bounded_and_the_rest_is_found_in_the_store(store, scripted, clock, append, published):
    """Two of five runs are queued; a tick finds the others."""
    settings = Settings()
    projection = Projection(Tracker(scripted), settings=settings, clock=clock)
    bounded = Projector(store, projection, settings=settings, clock=clock, publish=published.extend, max_queued_runs=2)
    run_ids = [append(run=f"r{number}", records=[{"step": 1}]) for number in range(5)]
    bounded.notify(run_ids)
    assert bounded.queued_runs == 2
    bounded.start()
    try:
        eventually(lambda: {event.run_id for event in published if isinstance(event, StepCompleted)} == set(run_ids))
    finally:
        bounded.stop()


@pytest.fixture
def small_slices(monkeypatch):
    """Let each slice process one step."""
    monkeypatch.setattr(budget, "MAX_STEPS_PER_SLICE", 1)
    monkeypatch.setattr(log_entries, "RECORDS_PER_SLICE", 1)


@pytest.mark.usefixtures("small_slices")
def test_runs_for_which_the_queue_has_no_place_come_in_turn(store, scripted, clock, append, published):
    """Two runs that always have more to do would keep both places until their ends, and the others would starve."""
    settings = Settings(tick_seconds=1e-6)
    projection = Projection(Tracker(scripted), settings=settings, clock=clock)
    bounded = Projector(store, projection, settings=settings, clock=clock, publish=published.extend, max_queued_runs=2)
    long = [append(run=f"long-{number}", records=[{"step": step} for step in range(40)]) for number in range(2)]
    short = [append(run=f"short-{number}", records=[{"step": 0}]) for number in range(4)]
    bounded.start()
    try:
        eventually(lambda: len(_completed(published)) == 84)
    finally:
        bounded.stop()
    done = _completed(published)
    assert max(done.index(run_id) for run_id in short) < len(done) / 2
    assert {done.count(run_id) for run_id in long} == {40}


def _completed(published):
    return [event.run_id for event in published if isinstance(event, StepCompleted)]


def test_waits_for_a_verdict_are_bounded(projector, append, monkeypatch):
    """The third wait is over at once; waits that were given up make room again."""
    monkeypatch.setattr(known_verdicts, "MAX_WAITERS", 2)
    run_id = append(records=[{"step": 1}])
    first, second, third = (projector.wait_for(run_id, 2**60) for _ in range(3))
    assert (first.done(), second.done(), third.done()) == (False, False, True)
    assert projector.waiters == 2
    first.cancel()
    assert not projector.wait_for(run_id, 2**60).done()


def test_nobody_waits_after_a_wait_in_vain_until_there_is_nothing_left_to_do(projector, append, store):
    """An overloaded collector answers at once; one that has caught up is waited for again."""
    run_id = append(records=[{"step": 1}])
    with store.read() as repositories:
        end = repositories.runs.find(run_id).log_end
    assert projector.is_near(run_id, end, within=64)
    projector.report_late()
    assert not projector.is_near(run_id, end, within=64)
    projector.start()
    eventually(lambda: projector.known_verdict(run_id) is not None)
    eventually(lambda: projector.is_near(run_id, end, within=64))
    assert not projector.is_near(run_id, end + 65, within=64)


def test_nobody_waits_while_other_runs_wait_and_the_projector_is_busy(store, scripted, clock, append):
    """Senders that wait for each other's verdicts would send no faster than the detectors work."""
    settings, seconds = Settings(), StepClock()

    class Slow(scripted):
        def update(self, observation):
            seconds.now += 60.0
            return super().update(observation)

    def make():
        projection = Projection(Tracker(Slow), settings=settings, clock=clock)
        options = {"busy_share": BusyShare(), "monotonic": seconds}
        return Projector(store, projection, settings=settings, clock=clock, publish=lambda _: None, **options)

    idle, busy = make(), make()
    idle.notify(["this", "other"])
    assert idle.is_near("this", 1, within=64)
    run_id = append(records=[{"step": 1}])
    busy.start()
    eventually(lambda: busy.known_verdict(run_id) is not None)
    busy.stop()
    busy.notify(["this"])
    assert busy.is_near("this", 1, within=64)
    busy.notify(["other"])
    assert not busy.is_near("this", 1, within=64)


def test_nobody_waits_for_the_verdict_of_another_collector(store, scripted, clock, append):
    """A wait for a run that another projector owns is over when that is known, and none follows."""
    run_id = append(records=[{"step": 1}])
    settings = Settings()
    other = Projection(Tracker(scripted), settings=settings, clock=clock, owner="other")
    assert other.project(store, run_id) is not None
    projection = Projection(Tracker(scripted), settings=settings, clock=clock, owner="here")
    here = Projector(store, projection, settings=settings, clock=clock, publish=lambda _: None)
    append(records=[{"step": 2}])
    here.start()
    try:
        here.wait_for(run_id, 2**60).result(PATIENCE_SECONDS)
        assert not here.is_near(run_id, 0, within=2**62)
    finally:
        here.stop()


def test_a_verdict_is_not_kept_after_another_collector_has_taken_the_run(store, scripted, clock, append):
    """Every later receipt would repeat it; without it, receipts have what the other collector has stored."""
    run_id = append(records=[{"step": 1}])
    projection = Projection(Tracker(scripted), settings=Settings(), clock=clock, owner="here")
    here = Projector(store, projection, settings=Settings(), clock=clock, publish=lambda _: None)
    here.start()
    try:
        eventually(lambda: here.known_verdict(run_id))
        clock.now += OWNER_SECONDS
        with store.write() as repositories:
            queue = repositories.projection_queue
            assert queue.claim(run_id, "other", now=clock.now, until=clock.now + OWNER_SECONDS)
        append(records=[{"step": 2}])
        here.wait_for(run_id, 2**60).result(PATIENCE_SECONDS)
        assert here.known_verdict(run_id) is None
    finally:
        here.stop()


@pytest.fixture
def full_steps_table(database_url):
    """Fill the disk of the table of steps, as PostgreSQL sees it, and return a function that frees it."""
    with psycopg.connect(database_url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END $$"
        )
        connection.execute("CREATE TRIGGER full_disk BEFORE INSERT ON steps EXECUTE FUNCTION full_disk()")
        yield lambda: connection.execute("DROP TRIGGER full_disk ON steps")


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_why_slices_cannot_be_written_is_known_while_batches_still_can_be(
    full_steps_table, store, projector, append, caplog
):
    """The disk is full for the table of steps alone, as where its tablespace is. Nothing is lost; the log is short."""
    run_id = append(records=[{"step": 1}])
    projector.start()
    eventually(lambda: "No space left on device" in (projector.recent_failure or ""))
    assert append(records=[{"step": 2}]) == run_id
    eventually(lambda: store.faults.counts()["full"] >= 3)
    full_steps_table()
    eventually(lambda: (verdict := projector.known_verdict(run_id)) is not None and verdict.step == 2)
    assert projector.recent_failure is None
    said = [record.getMessage() for record in caplog.records if record.name.endswith("failure_log")]
    assert ["could not be projected" in line for line in said] == [True, False]
    assert said[1].startswith("slices succeed again, after ")


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_projector_that_cannot_write_leaves_its_runs_to_others(full_steps_table, store, scripted, clock, append):
    """It can still write who owns a run, and must not do so for ever."""
    run_id, ticks, settings = append(records=[{"step": 1}]), [], Settings(tick_seconds=0.05)
    projection = Projection(Tracker(scripted), settings=settings, clock=clock, owner="this one")
    options = {"clock": clock, "publish": lambda _: None, "on_tick": lambda: ticks.append(clock.now)}
    projector = Projector(store, projection, settings=settings, **options)
    projector.start()
    try:
        eventually(lambda: projector.recent_failure)
        clock.now += 0.9 * OWNER_SECONDS
        eventually(lambda: ticks.count(clock.now) >= 2)  # the second one begins when the first has ended
        with store.read() as repositories:
            assert repositories.runs.find(run_id).owned_until < clock.now + 0.5 * OWNER_SECONDS
        full_steps_table()
        eventually(lambda: projector.known_verdict(run_id))
    finally:
        projector.stop()
