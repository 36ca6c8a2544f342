"""Deadlines pass by a clock that no jump of the machine's clock moves."""

import time

import pytest

from monitor_server.settings import Settings
from monitor_server.steady_clock import SteadyClock
from tests import databases
from tests.live import eventually, serving
from tests.monitor_server.conftest import StepClock

DAY = 86_400.0
NOW = 2_000_000_000.0  # after rlvitals was begun

database_url = databases.database_url  # these tests run on both databases


class Machine:
    """A machine whose time passes and whose clock can be set."""

    def __init__(self):
        self.wall, self.monotonic = StepClock(NOW), StepClock(50.0)

    def wait(self, seconds):
        """Let time pass."""
        self.wall.now += seconds
        self.monotonic.now += seconds


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
def steady(machine):
    return SteadyClock(wall=machine.wall, monotonic=machine.monotonic)


@pytest.fixture
def live(start_collector, scripted, steady):
    return start_collector(
        engine=scripted, clock=steady, stall_minimum_seconds=100, lost_factor=10, step_deadline_seconds=60
    )


@pytest.mark.parametrize("jump", [-3600.0, DAY])
def test_a_jump_moves_no_deadline_and_is_logged_once(live, machine, caplog, jump):
    """After it a run with steps is running, and one without is stalled, then lost, as without the jump."""
    run_id = live.run(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    machine.wall.now += jump
    eventually(lambda: f"set by {jump:+.0f} s" in caplog.text)
    live.send(run="r", records=[{"step": 1, "scalars": {"a": 1.0}}])
    assert live.get(f"/runs/{run_id}")["status"] == "running"
    machine.wait(101)
    eventually(lambda: [alert["kind"] for alert in live.get("/alerts")["items"]] == ["telemetry_stale"])
    machine.wait(900)
    eventually(lambda: "trainer_lost" in {alert["kind"] for alert in live.get("/alerts")["items"]})
    assert caplog.text.count("was set by") == 1


def test_a_step_deadline_passes_though_the_clock_was_set_back(live, machine):
    """A rank that never reports delays a step by the deadline, and not by an hour more."""
    run_id = live.run(run="r", world_size=2, records=[{"step": 0, "scalars": {"a": 1.0}}])
    machine.wall.now -= 3600
    machine.wait(61)
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 0)


def test_a_clock_that_was_set_back_while_the_collector_was_away_starts_from_the_newest_time(machine, caplog):
    """Otherwise silence would not be noticed until the clock has caught up."""
    clock = SteadyClock(wall=machine.wall, monotonic=machine.monotonic, newest=NOW + 3600)
    assert clock() == NOW + 3600
    assert "3600 s behind the newest time" in caplog.text
    machine.wait(10)
    assert clock() == NOW + 3610
    clock.report_jump()
    assert "was set by" not in caplog.text


@pytest.mark.parametrize("shared", [None, 30.0])
def test_a_clock_that_shows_a_time_before_rlvitals_was_begun_is_not_believed(machine, shared, caplog):
    """Times in the database stay, and nothing is removed for its age until the clock is set."""
    machine.wall.now = 22.0
    clock = SteadyClock(wall=machine.wall, monotonic=machine.monotonic, newest=NOW, shared=shared)
    assert (clock(), clock.distrusts_newest, clock.may_be_ahead()) == (NOW, False, True)
    assert "s behind the newest time in the database; deadlines count from that time" in caplog.text
    machine.wall.now = NOW + 3 * DAY
    assert not clock.may_be_ahead()
    assert SteadyClock(wall=lambda: NOW, monotonic=machine.monotonic, shared=shared)() == NOW


def test_clocks_that_all_show_an_early_time_are_used_as_any(machine):
    """On a machine for experiments all dates may be years old; its collectors still share the server's clock."""
    early = machine.wall.now = 1_000_000_000.0
    clock = SteadyClock(wall=machine.wall, monotonic=machine.monotonic, newest=early + 2 * DAY, shared=early + 100)
    assert (clock(), clock.distrusts_newest, clock.may_be_ahead()) == (early + 100, True, False)


@pytest.mark.parametrize("ahead", [-10 * DAY, 6 * 3600.0, 10 * DAY])
def test_collectors_of_one_server_go_by_its_clock(store, caplog, ahead):
    """Otherwise one whose machine is days ahead would remove the runs of the others; SQLite has no other clock."""
    steady = SteadyClock.of(store, wall=lambda: time.time() + ahead)
    assert store.is_shared == (abs(steady() - time.time()) < 3600)
    assert store.is_shared == (f"{ahead:+.0f} s ahead of the database's" in caplog.text)


def test_a_clock_that_may_be_ahead_is_told_apart(machine):
    """It showed days more than the database at the start, for an hour; or the machine's was set back since."""
    times = {"wall": machine.wall, "monotonic": machine.monotonic}
    late, steady = SteadyClock(newest=machine.wall.now - 10 * DAY, **times), SteadyClock(newest=NOW - 1000, **times)
    shared = SteadyClock(newest=machine.wall.now - 10 * DAY, shared=machine.wall.now, **times)
    assert [each.may_be_ahead() for each in (late, steady, shared)] == [True, False, False]
    machine.wait(3_601)
    assert [each.may_be_ahead() for each in (late, steady, shared)] == [False, False, False]
    machine.wall.now -= 10 * DAY
    assert [each.may_be_ahead() for each in (late, steady, shared)] == [True, True, False]
    machine.wall.now += 20 * DAY  # a clock that is behind removes nothing too early
    assert not steady.may_be_ahead()


def test_a_clock_that_nearly_agrees_with_the_servers_is_kept(machine, caplog):
    """Machines that NTP sets differ by less than is said."""
    assert SteadyClock(wall=machine.wall, monotonic=machine.monotonic, shared=NOW + 4)() == NOW
    assert caplog.text == ""


def test_times_of_a_clock_that_was_far_ahead_are_not_believed(start_collector, scripted, database_url, caplog):
    """A clock that was ten days ahead leaves no trace: after the next start times are right, and silence counts."""
    quick = {"stall_minimum_seconds": 0.2, "lost_factor": 1e6}
    ahead = StepClock(time.time() + 10 * DAY)
    with serving(Settings(database_url=database_url, dashboard="", **quick), clock=ahead, engine=scripted) as live:
        silent = live.run(run="silent", records=[{"step": 0, "scalars": {"a": 1.0}}])
        waits = live.run(run="waits", world_size=2, records=[{"step": 0, "scalars": {"a": 1.0}}])
        assert live.get(f"/runs/{silent}")["last_seen"] > time.time() + 9 * DAY
    live = start_collector(engine=scripted, step_deadline_seconds=0.2, **quick)
    assert "ahead of the machine's clock" in caplog.text
    eventually(lambda: live.get(f"/runs/{silent}")["status"] == "stalled")
    eventually(lambda: live.get(f"/runs/{waits}")["last_step"] == 0)
    heard = live.run(run="heard", records=[{"step": 0, "scalars": {"a": 1.0}}])
    for run_id in (silent, waits, heard):
        assert abs(live.get(f"/runs/{run_id}")["last_seen"] - time.time()) < 3600
