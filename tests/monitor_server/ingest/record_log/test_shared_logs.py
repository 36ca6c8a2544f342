"""Collectors of one PostgreSQL database that extend the same logs at once."""

import struct
import threading
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor

import pytest

from monitor_server.errors import Unavailable
from monitor_server.ingest.record_log import shared_runs
from monitor_server.ingest.record_log.log_append import LogAppender, LogMoved
from monitor_server.settings import Settings
from monitor_server.store.database import Store
from tests.live import eventually
from tests.monitor_server.ingest.record_log.log_batches import append, create_batch
from tests.postgres import create_database
from tests.store_connections import current_connection, noted_statements
from trainer_hooks import wire

COMMITS = 20
RESPONSE = {
    "kinds": ["random"],
    "reward": 1.0,
    "correct": True,
    "length": 1,
    "logprob": -1.0,
    "actions": {"dtype": "int32", "shape": [1, 2], "data": b64encode(struct.pack("<ii", 0, 1)).decode()},
    "logprobs": {"dtype": "float16", "shape": [1], "data": b64encode(bytes(2)).decode()},
}
RUNS = sorted("abc", key=lambda name: wire.run_id("default", name))


@pytest.fixture
def stores(postgres):
    """Four collectors' connections to one database."""
    url = create_database(postgres)
    stores = [Store.open(url) for _ in range(4)]
    yield stores
    for store in stores:
        store.close()


def _append_as_the_writer_does(store, log, batches):
    """Append batches in one commit; if a log has moved, again after its state was read anew."""
    while True:
        try:
            return append(store, log, *batches)
        except LogMoved:
            log.forget()


def test_ranks_of_some_runs_that_send_to_three_collectors_are_stored_once_each_and_without_a_gap(stores, clock):
    """Meanwhile a projector changes the rows of the runs, as it does at each slice."""
    has_ended = threading.Event()

    def collect(rank):
        log = LogAppender(settings=Settings(), clock=clock)
        for commit in range(COMMITS):
            names = [name for name in RUNS if (commit + rank + ord(name)) % 3]
            steps = range(3 * commit, 3 * commit + 3)
            batches = [create_batch(clock, *steps, run=name, rank=rank, world_size=3) for name in names]
            _append_as_the_writer_does(stores[rank], log, batches)

    def project():
        while not has_ended.wait(0.002):
            for name in RUNS:
                with stores[3].write() as repositories:
                    run = repositories.runs.find(wire.run_id("default", name))
                    if run is not None:
                        repositories.runs.save_projection(run)

    with ThreadPoolExecutor() as pool:
        projector = pool.submit(project)
        try:
            for collector in [pool.submit(collect, rank) for rank in range(3)]:
                collector.result()
        finally:
            has_ended.set()
        projector.result()
    for name in RUNS:
        run_id = wire.run_id("default", name)
        with stores[0].read() as repositories:
            found, is_all = repositories.records.after(run_id, 0, limit=10_000, max_bytes=10_000_000)
            end = repositories.runs.find(run_id).log_end
        assert is_all
        positions = [record.position for record in found]
        assert positions == list(range(end - len(found) + 1, end + 1))
        sent = {(rank, step) for rank in range(3) for step in range(3 * COMMITS) if (step // 3 + rank + ord(name)) % 3}
        assert sorted((record.rank, record.step) for record in found) == sorted(sent)


def test_batches_of_a_run_that_others_extend_take_few_statements(stores, clock):
    """One locks the run, one reads the last record of each rank, and one stores all; nothing is stored twice."""
    here, other = LogAppender(settings=Settings(), clock=clock), LogAppender(settings=Settings(), clock=clock)
    append(stores[0], here, create_batch(clock, 0))
    append(stores[1], other, create_batch(clock, 0, rank=1))
    for step in (1, 2):
        _append_as_the_writer_does(stores[0], here, [create_batch(clock, step)])
        _append_as_the_writer_does(stores[1], other, [create_batch(clock, step, rank=1)])
    with noted_statements() as noted:
        ranks = [create_batch(clock, 3), create_batch(clock, 3, rank=1), create_batch(clock, 4)]
        assert append(stores[0], here, *ranks) == [(1, 0)] * 3
    assert len(noted) == 5  # the last one compares the version of the schema
    assert append(stores[1], other, create_batch(clock, 4), create_batch(clock, 4, 5)) == [(0, 1), (1, 1)]
    assert append(stores[0], here, create_batch(clock, 5), create_batch(clock, 6)) == [(0, 1), (1, 0)]


def _begin_again(store):
    """Delete the run whole, as retention does, so that it can begin again."""
    run_id = wire.run_id("default", "r")
    with store.write() as repositories:
        repositories.deletion.begin_deletion([run_id], now=0.0)
    with store.write() as repositories:
        while repositories.deletion.remove_rows(run_id, limit=1_000):
            pass


def test_a_run_that_was_deleted_and_begins_again_elsewhere_gets_its_signals_again(stores, clock):
    """The collector that had appended to it before knows the signals of the run that is gone."""
    here, other = LogAppender(settings=Settings(), clock=clock), LogAppender(settings=Settings(), clock=clock)
    append(stores[0], here, create_batch(clock, 0))
    append(stores[1], other, create_batch(clock, 0, rank=1))
    _append_as_the_writer_does(stores[0], here, [create_batch(clock, 1)])
    _begin_again(stores[1])
    clock.now += 1
    other.forget()
    again = [{"step": 0, "scalars": {"b": 1.0}}]
    append(stores[1], other, create_batch(clock, records=again, rank=1))
    assert append(stores[0], here, create_batch(clock, 0)) == [(1, 0)]
    with stores[0].read() as repositories:
        assert {"a", "b"} <= set(repositories.steps.signals(wire.run_id("default", "r")))


def _lock(store, run):
    """Lock a run as another collector does, which waits for a moment."""
    with store.write() as others:
        others.limit_lock_waits(0.05)
        others.runs.lock(wire.run_id("default", run))


def test_the_runs_of_a_commit_are_locked_in_the_order_of_its_batches(stores, clock):
    """Also where another collector extends the log of the second one: two orders would be a deadlock."""
    first, second = RUNS[:2]
    here, other = LogAppender(settings=Settings(), clock=clock), LogAppender(settings=Settings(), clock=clock)
    append(stores[0], here, create_batch(clock, 0, run=first), create_batch(clock, 0, run=second))
    append(stores[1], other, create_batch(clock, 0, run=second, rank=1))
    _append_as_the_writer_does(stores[0], here, [create_batch(clock, 1, run=second)])
    append(stores[0], here, create_batch(clock, 1, run=first), create_batch(clock, 2, run=second))

    with stores[0].write() as repositories:
        here.append_deferred(repositories, create_batch(clock, 2, run=first))
        here.append_deferred(repositories, create_batch(clock, 3, run=second))
        with pytest.raises(Unavailable, match="lock"):
            _lock(stores[1], first)
        here.flush(repositories)


def test_the_runs_of_batches_are_locked_before_the_run_that_a_person_changes(stores, clock):
    """The change is in one commit with a batch of an earlier run; two orders would be a deadlock."""
    first, second = RUNS[:2]
    log = LogAppender(settings=Settings(), clock=clock)
    append(stores[0], log, create_batch(clock, 0, run=first))

    with stores[0].write() as repositories:
        log.append_deferred(repositories, create_batch(clock, 1, run=first))
        log.prepare_change(repositories, wire.run_id("default", second))
        with pytest.raises(Unavailable, match="lock"):
            _lock(stores[1], first)


def test_no_more_runs_are_remembered_as_shared_than_there_is_room_for(stores, clock, monkeypatch):
    """Another collector extends each of three runs; every record is stored, and two runs are remembered."""
    monkeypatch.setattr(shared_runs, "MAX_SHARED_RUNS", 2)
    here, other = LogAppender(settings=Settings(), clock=clock), LogAppender(settings=Settings(), clock=clock)
    for run in RUNS:
        append(stores[0], here, create_batch(clock, 0, run=run))
        append(stores[1], other, create_batch(clock, 0, run=run, rank=1, world_size=2))
        _append_as_the_writer_does(stores[0], here, [create_batch(clock, 1, run=run)])
        assert here.caches["log_shared_runs"]() <= 2
    assert here.caches["log_shared_runs"]() == 2
    with stores[0].read() as repositories:
        counts = [
            len(repositories.records.after(wire.run_id("default", run), 0, limit=9, max_bytes=9**9)[0]) for run in RUNS
        ]
    assert counts == [3, 3, 3]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda others, runs: others.deletion.begin_deletion(runs, now=0.0), id="delete"),
        pytest.param(lambda others, _: others.projection_queue.release("projector"), id="release"),
    ],
)
def test_a_change_of_many_runs_locks_them_in_the_order_of_ingest(stores, clock, change):
    """While it waits for the first one, ingest can lock the second one; two orders would be a deadlock."""
    first, second = (wire.run_id("default", name) for name in RUNS[:2])
    log = LogAppender(settings=Settings(), clock=clock)
    for name in RUNS[:2]:
        append(stores[0], log, create_batch(clock, 0, run=name))
    for run in (second, first):  # so the rows then lie in the table
        with stores[0].write() as repositories:
            repositories.projection_queue.claim(run, "projector", now=0.0, until=1.0)

    def change_both():
        with stores[1].write() as others:
            change(others, [second, first])

    with ThreadPoolExecutor() as pool:
        with stores[0].write() as repositories:
            repositories.runs.lock(first)
            changed = pool.submit(change_both)
            eventually(lambda: _is_somebody_waiting(stores[2]))
            repositories.limit_lock_waits(0.05)
            repositories.runs.lock(second)
        changed.result()


def _is_somebody_waiting(store):
    with store.read():
        return current_connection().exec_driver_sql("SELECT 1 FROM pg_locks WHERE NOT granted").first()


def test_a_run_whose_responses_are_being_stored_can_be_locked_elsewhere(stores, clock):
    """A collector that appends to several runs would otherwise wait for one that waits for it."""
    here = LogAppender(settings=Settings(), clock=clock)
    append(stores[0], here, create_batch(clock, 0))
    with stores[0].write() as repositories, stores[1].write() as others:
        here.append_deferred(repositories, create_batch(clock, records=[{"step": 1, "responses": [RESPONSE]}]))
        others.limit_lock_waits(0.05)
        others.runs.lock(wire.run_id("default", "r"))


def test_collectors_that_remove_the_same_old_responses_do_not_wait_for_each_other(stores, clock):
    """One of them has locked the run, and the other one locks it last: each would wait for the other."""
    settings = Settings(response_steps=1)
    here, other = LogAppender(settings=settings, clock=clock), LogAppender(settings=settings, clock=clock)
    for step in range(40):
        append(stores[0], here, create_batch(clock, records=[{"step": step, "responses": [RESPONSE]}]))
    with stores[0].write() as repositories:
        run = repositories.runs.find(wire.run_id("default", "r"))
        run.last_step = 39
        repositories.runs.save_projection(run)
    with stores[0].write() as repositories, stores[1].write() as others:
        here.append_deferred(repositories, create_batch(clock, records=[{"step": 40, "responses": [RESPONSE]}]))
        others.limit_lock_waits(0.05)
        other.append_deferred(others, create_batch(clock, rank=1, records=[{"step": 40, "responses": [RESPONSE]}]))
