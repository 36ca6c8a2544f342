"""A tick looks at unsettled runs only, and finds every run that has something to do."""

import random

from hypothesis import given
from hypothesis import strategies as st

from monitor_server.alerts.acknowledgement import AlertAcknowledgement, acknowledge
from monitor_server.ingest.reset import reset_run
from monitor_server.settings import Settings
from monitor_server.store.repositories.run_status import run_status
from tests.databases import sqlite_only
from tests.live import eventually
from tests.monitor_server.simulated_collectors import SimulatedCollector, project_to_end, random_examples, read_fields
from tests.store_connections import current_connection, noted_statements, query_plan
from trainer_hooks import wire

DAY = 86_400.0
SETTINGS = Settings(stall_minimum_seconds=100, step_deadline_seconds=50)
DEADLINES = SETTINGS.deadlines
MANY = 10_000


class Fleet:
    """A few runs of two collectors, to which everything happens that can change what is left to do."""

    def __init__(self, seed, stores, engine, clock):
        self.draw, self.clock, self.store = random.Random(seed), clock, stores[0]  # noqa: S311 - synthetic telemetry
        self.collectors = [SimulatedCollector(store, engine, clock, SETTINGS) for store in stores]
        self.names = [f"{seed}-{place}" for place in range(3)]
        self.seq = 0

    def act(self):
        """Do one random thing to one run."""
        name = self.draw.choice(self.names)
        run_id = wire.run_id("default", name)
        with self.store.read() as repositories:
            is_known = repositories.runs.exists(run_id)
        chance = self.draw.random()
        if chance < 0.4 or not is_known:
            self.send(name)
        elif chance < 0.75:
            project_to_end(self.collectors, run_id, self.clock)
        elif chance < 0.85:
            self.clock.now += self.draw.choice((1.0, 60.0, 150.0, 2_000.0, 4 * DAY))
        else:
            self.draw.choice([self.reset, self.acknowledge, self.acknowledge, self.quarantine])(run_id)

    def send(self, name):
        """Send steps, a sign of life, the start of a process or its end, by any collector."""
        draw = self.draw
        self.seq += 1
        scalars = {"warn": float(draw.random() < 0.3)}
        record = {"step": self.seq, "seq": draw.choice((self.seq, self.seq // 2)), "scalars": scalars}
        parts = [{"records": [record]}, {"records": [record]}, {}, {"config": {}}, {"end": "finished"}]
        parts += [{"end": "stopped", "records": [record]}]
        rank, size = draw.choice(((0, 1), (0, 1), (0, 2), (1, 2)))
        whole = {"run": name, "rank": rank, "world_size": size, "attempt": draw.choice((1, 1, 1, 2))}
        valid = read_fields(whole | draw.choice(parts), settings=SETTINGS, now=self.clock.now)
        assert draw.choice(self.collectors).append([valid]) is not None

    def reset(self, run_id):
        """Let the run go on in its first attempt."""
        with self.store.write() as repositories:
            reset_run(repositories, run_id, attempt=1, now=self.clock.now)

    def acknowledge(self, run_id):
        """Acknowledge an alert, which also gives a lost run up."""
        with self.store.write() as repositories:
            for alert in repositories.alerts.page(limit=1, run_id=run_id):
                given = AlertAcknowledgement(run_id=run_id, alert_id=alert["id"], by="ann", note="")
                acknowledge(repositories, given, now=self.clock.now)

    def quarantine(self, run_id):
        """Quarantine the run, as the projector does where it cannot project it."""
        with self.store.write() as repositories:
            self.collectors[0].projection.quarantine(repositories, run_id, ValueError("damaged"))

    def check(self):
        """Compare what the queries of a tick find with every run."""
        with self.store.read() as repositories:
            now, queue = self.clock.now, repositories.projection_queue
            found = [repositories.runs.find(wire.run_id("default", name)) for name in self.names]
            runs = {run.id: run for run in found if run is not None}
            quarantined = {id_ for id_, run in runs.items() if run.quarantined_at is not None}
            behind = {id_ for id_, run in runs.items() if not run.is_projected} - quarantined
            changed = {
                id_ for id_, run in runs.items() if run_status(run, now=now, deadlines=DEADLINES) != run.announced
            }
            assert {each.run_id for each in queue.behind(limit=MANY)} & runs.keys() == behind
            assert set(queue.quarantined_runs()) & runs.keys() == quarantined
            assert set(repositories.run_views.changed_runs(now=now, deadlines=DEADLINES)) & runs.keys() == changed


@random_examples(4)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_tick_finds_every_run_that_has_something_to_do(two_stores, scripted, clock, seed):
    """Runs that are behind, quarantined, or of another status than announced: settled ones are none of these."""
    fleet = Fleet(seed, two_stores, scripted, clock)
    for _ in range(60):
        fleet.act()
        fleet.check()


def _settled(store):
    with store.read():
        rows = current_connection().exec_driver_sql("SELECT name, is_settled FROM runs")
        return {name for name, is_settled in rows if is_settled}


def test_a_run_is_settled_once_it_has_ended_and_is_projected(start_collector, scripted, clock):
    """So is one whose trainer was lost and is given up as expired; a sign of life of another rank changes nothing."""
    live = start_collector(engine=scripted, clock=clock)
    record = {"step": 0, "scalars": {"a": 1.0}}
    live.run(run="ended", records=[record], end="finished")
    live.run(run="killed", records=[record])
    store = live.app.state.collector.store
    eventually(lambda: _settled(store) == {"ended"})
    live.send(run="ended", rank=1, world_size=2)
    assert _settled(store) == {"ended"}
    clock.now += 5 * DAY
    eventually(lambda: _settled(store) == {"ended", "killed"})
    live.run(run="killed", records=[{"step": 1, "scalars": {"a": 1.0}}])
    eventually(lambda: live.get("/runs", text="killed")["items"][0]["status"] == "running")


@sqlite_only
def test_a_tick_finds_the_unsettled_runs_by_their_index(store):
    """None of its queries reads the rows of all runs, of which most have ended."""
    with noted_statements() as noted, store.read() as repositories:
        queue = repositories.projection_queue
        queue.behind(limit=1)
        queue.has_ending("one", before=1.0)
        queue.quarantined_runs(before=1.0)
        repositories.run_views.changed_runs(now=1.0, deadlines=DEADLINES)
        repositories.rules.due_runs(now=1.0, revision=2)
        repositories.run_views.count_live(now=1.0, deadlines=DEADLINES)  # of each scrape
    plans = [query_plan(store, *each) for each in noted if "runs" in each[0]]
    assert len(plans) == 6
    for plan in plans:
        assert [line for line in plan if "runs" in line and "ix_runs_unsettled" not in line] == []


def test_a_start_with_another_deadline_looks_at_settled_runs_too(start_collector, store, append, scripted, clock):
    """A run that was expired is lost again, with its alert, where a longer time is set."""
    run_id = append(run="killed", records=[{"step": 0, "scalars": {"a": 1.0}}])
    clock.now += 2 * DAY
    project_to_end([SimulatedCollector(store, scripted, clock, Settings(lost_expiry_seconds=DAY))], run_id, clock)
    assert _settled(store) == {"killed"}
    live = start_collector(engine=scripted, clock=clock, lost_expiry_seconds=9 * DAY)
    eventually(lambda: "trainer_lost" in [alert["kind"] for alert in live.get(f"/runs/{run_id}/alerts")["items"]])


def test_a_start_finds_what_an_older_version_has_written_to_a_settled_run(
    start_collector, store, append, scripted, clock
):
    """A collector that was started before the upgrade appends to the log, and knows of no settled runs."""
    run_id = append(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}], end="finished")
    project_to_end([SimulatedCollector(store, scripted, clock, SETTINGS)], run_id, clock)
    assert _settled(store) == {"r"}
    with store.write():
        current_connection().exec_driver_sql("UPDATE runs SET log_end = log_end + 1")
    start_collector(engine=scripted, clock=clock)

    def is_projected():
        with store.read() as repositories:
            return repositories.runs.find(run_id).is_projected

    eventually(is_projected)
