"""Appending to a run's log, directly on a store: batches of one commit together, and a log that others extend too."""

from contextlib import suppress

import pytest
import sqlalchemy

from monitor_server.ingest.record_log.log_append import LogAppender, LogMoved
from monitor_server.ingest.record_log.shared_runs import SHARED_SECONDS
from monitor_server.settings import Settings
from monitor_server.store.tables import records
from tests.monitor_server.ingest.record_log.log_batches import append, create_batch
from tests.store_connections import current_connection
from trainer_hooks import wire


@pytest.fixture
def create_log(clock):
    """Create a log with its own caches, as each collector has them."""
    return lambda: LogAppender(settings=Settings(), clock=clock)


def _stored(store, run="r"):
    """Return rank and step of each record in the order of the log, and whether positions have no gap."""
    run_id = wire.run_id("default", run)
    with store.read() as repositories:
        found, _ = repositories.records.after(run_id, 0, limit=1_000, max_bytes=1_000_000)
        end = repositories.runs.find(run_id).log_end
    positions = [record.position for record in found]
    assert positions[-1] == end
    assert positions == list(range(positions[0], end + 1))
    return [(record.rank, record.step) for record in found]


def test_damaged_records_refuse_no_others(store, clock, create_log, caplog):
    """A body that cannot be decoded has no shapes, and a block whose records cannot be told apart has one."""
    summaries = {"x": {"type": "moments", "count": 1, "sum": 1.0}}
    batches = [
        create_batch(clock, rank=rank, records=[{"step": step, "seq": step, "summaries": summaries} for step in (1, 2)])
        for rank in (0, 1)
    ]
    append(store, create_log(), batches[0])
    with store.write():
        damaged = {"body": b"\xc1", "entries": b"\xc1"}
        current_connection().execute(sqlalchemy.update(records).values(damaged))
    assert append(store, create_log(), batches[1]) == [(2, 0)]
    assert append(store, create_log(), batches[0]) == [(1, 1)]
    assert "cannot be decoded" in caplog.text
    assert "cannot be told apart" in caplog.text


def test_batches_of_one_commit_follow_each_other_in_each_log(store, clock, create_log):
    """Two runs have two batches each: each second batch only continues the first one of its run."""
    log = create_log()
    append(store, log, create_batch(clock, 0), create_batch(clock, 0, run="other"))
    batches = [
        create_batch(clock, 1, 2),
        create_batch(clock, 3),
        create_batch(clock, 1, run="other"),
        create_batch(clock, 2, run="other"),
    ]
    assert append(store, log, *batches) == [(2, 0), (1, 0), (1, 0), (1, 0)]
    assert _stored(store) == [(0, step) for step in range(4)]
    assert _stored(store, "other") == [(0, step) for step in range(3)]


def test_a_batch_that_is_sent_again_in_the_same_commit_is_stored_once(store, clock, create_log):
    """The first of the two may still be deferred when the second one comes."""
    log = create_log()
    append(store, log, create_batch(clock, 0))
    assert append(store, log, create_batch(clock, 1, 2), create_batch(clock, 1, 2)) == [(2, 0), (0, 2)]
    assert _stored(store) == [(0, 0), (0, 1), (0, 2)]


def test_a_batch_that_begins_with_records_of_the_one_before_adds_the_others(store, clock, create_log):
    """A trainer that heard no answer may send what it had sent together with what came after it."""
    log = create_log()
    for steps, counts in (((1, 2, 3), (3, 0)), ((4, 5, 6), (3, 0)), ((6, 7), (1, 1))):
        assert append(store, log, create_batch(clock, *steps)) == [counts]
    assert _stored(store) == [(0, step) for step in range(1, 8)]


def test_a_log_that_another_collector_has_extended_is_read_anew(store, clock, create_log):
    """The deferred batches are refused as a whole, and then appended behind the records of the other collector."""
    here, other = create_log(), create_log()
    append(store, here, create_batch(clock, 0))
    append(store, other, create_batch(clock, 0, rank=1))
    with pytest.raises(LogMoved):
        append(store, here, create_batch(clock, 1))
    here.forget()
    assert append(store, here, create_batch(clock, 1)) == [(1, 0)]
    other.forget()
    append(store, other, create_batch(clock, 1, rank=1))
    assert append(store, here, create_batch(clock, 2)) == [(1, 0)]  # known as a run that others extend: no refusal
    assert _stored(store) == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]
    assert here.caches["log_shared_runs"]() == 1
    clock.now += SHARED_SECONDS + 1
    assert append(store, here, create_batch(clock, 3)) == [(1, 0)]
    assert here.caches["log_shared_runs"]() == 0


def test_if_one_log_has_moved_no_other_log_of_the_commit_is_extended(store, clock, create_log):
    """On PostgreSQL the statement that finds it is a transaction of its own, so nothing is undone after it."""
    here, other = create_log(), create_log()
    append(store, here, create_batch(clock, 0), create_batch(clock, 0, run="other"))
    append(store, other, create_batch(clock, 1, run="other"))
    with pytest.raises(LogMoved):
        append(store, here, create_batch(clock, 1), create_batch(clock, 2, run="other"))
    assert _stored(store) == [(0, 0)]
    assert _stored(store, "other") == [(0, 0), (0, 1)]


def test_deferred_batches_are_undone_with_what_precedes_them_in_the_transaction(store, clock, create_log):
    """The first batch begins its run, which is written at once."""
    log = create_log()
    append(store, log, create_batch(clock, 0))
    with suppress(LookupError), store.write() as repositories:
        for batch in (create_batch(clock, 0, run="other"), create_batch(clock, 1)):
            log.append_deferred(repositories, batch)
        log.flush(repositories)
        raise LookupError
    assert _stored(store) == [(0, 0)]
    with store.read() as repositories:
        assert repositories.runs.find(wire.run_id("default", "other")) is None


def test_deferred_batches_are_undone_with_their_savepoint_and_not_by_what_is_forgotten(store, clock, create_log):
    """A job that fails is undone alone, and the caches of a run may be dropped at any time."""
    log = create_log()
    append(store, log, create_batch(clock, 0), create_batch(clock, 0, run="other"))
    with store.write() as repositories:
        log.append_deferred(repositories, create_batch(clock, 1))
        with suppress(LookupError), repositories.savepoint():
            log.append_deferred(repositories, create_batch(clock, 1, run="other"))
            raise LookupError
        log.forget(wire.run_id("default", "other"))
        log.flush(repositories)
    assert _stored(store) == [(0, 0), (0, 1)]
    assert _stored(store, "other") == [(0, 0)]


def test_a_batch_without_records_is_a_sign_of_life(store, clock, create_log):
    """It continues its run as any other batch, alone in its commit."""
    log = create_log()
    append(store, log, create_batch(clock, 0))
    clock.now += 60
    assert append(store, log, create_batch(clock)) == [(0, 0)]
    assert _stored(store) == [(0, 0)]
    with store.read() as repositories:
        assert repositories.runs.find(wire.run_id("default", "r")).last_seen == clock.now


def test_an_end_behind_deferred_records_stands_behind_them_in_the_log(store, clock, create_log):
    """The batch that ends a run is no mere continuation, and comes in its turn."""
    log = create_log()
    append(store, log, create_batch(clock, 0))
    assert append(store, log, create_batch(clock, 1), create_batch(clock, 2, end="finished")) == [(1, 0), (1, 0)]
    with store.read() as repositories:
        run = repositories.runs.find(wire.run_id("default", "r"))
        found, _ = repositories.records.after(run.id, 0, limit=10, max_bytes=1_000_000)
    assert run.ended == "finished"
    assert [record.step for record in found] == [0, 1, 2]


def test_what_another_collector_has_stored_of_a_rank_is_not_stored_again_after_a_batch_of_another_rank(
    store, clock, create_log
):
    """That batch reads the end of the log again, so the sent records of each rank up to there must be read too."""
    here, other = create_log(), create_log()
    append(store, here, create_batch(clock, 0))
    append(store, other, create_batch(clock, 1, 2))
    append(store, here, create_batch(clock, 0, rank=1))
    assert append(store, here, create_batch(clock, 1, 3)) == [(1, 1)]
    assert _stored(store) == [(0, 0), (0, 1), (0, 2), (1, 0), (0, 3)]
