"""Records of a batch share rows: every read gives the result of single rows."""

import functools
import itertools
from typing import NamedTuple

import hypothesis.strategies as st
import sqlalchemy
from hypothesis import HealthCheck, given, settings

from monitor_server.store.repositories.log.blocks import (
    MAX_BLOCK_BYTES,
    SPAN,
    StoredRecord,
    block_records,
    pack_blocks,
)
from monitor_server.store.repositories.log.step_records import StepBounds
from monitor_server.store.repositories.runs import Run
from monitor_server.store.tables import records as table
from tests.databases import sqlite_only
from tests.store_connections import current_connection, noted_statements, query_plan

UNBOUNDED = StepBounds(records=10_000, body_bytes=2**40)
NUMBERS = itertools.count()


class Sent(NamedTuple):
    """A record that a rank sends."""

    seq: int
    step: int
    body: bytes


# Steps close together and far apart, in and out of order, small bodies and some that fill a block.
STEPS = st.one_of(st.integers(0, 70), st.integers(0, 2_000), st.just(2**53))
SIZES = st.one_of(st.integers(1, 40), st.just(MAX_BLOCK_BYTES // 2), st.just(MAX_BLOCK_BYTES + 1))
BATCH = st.lists(st.tuples(STEPS, SIZES), min_size=1, max_size=40)
LOG = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2), st.booleans(), BATCH), min_size=1, max_size=6)


def _sent(batch, *, first_seq, in_order):
    ordered = sorted(batch) if in_order else batch
    return [Sent(first_seq + place, step, bytes([place + 1]) * size) for place, (step, size) in enumerate(ordered)]


@given(batch=BATCH, in_order=st.booleans(), begin=st.integers(0, 2**53))
def test_blocks_hold_all_records_and_each_is_small(batch, in_order, begin):
    """In the order of the batch, each at its position; a block spans few steps and few bytes."""
    sent = _sent(batch, first_seq=5, in_order=in_order)
    blocks = pack_blocks(sent, attempt=3, rank=7, begin=begin)
    end = begin + len(sent)
    assert [record for block in blocks for record in block_records(block)] == [
        StoredRecord(begin + place, end, 3, 7, *each) for place, each in enumerate(sent, start=1)
    ]
    for block in blocks:
        assert block.seq_span < SPAN
        assert block.step_span < SPAN
        assert block.record_count == 1 or len(block.body) <= MAX_BLOCK_BYTES
        assert (block.entries is None) is (block.record_count == 1)  # SQLite would read a long body to get to them


def test_a_batch_of_ten_steps_is_one_block():
    """This makes ingest fast."""
    sent = [Sent(step, step, b"x" * 1_200) for step in range(90, 100)]
    assert [block.record_count for block in pack_blocks(sent, attempt=1, rank=0, begin=0)] == [10]


def _append(repositories, log):
    """Append a log of batches to a new run; return its id and its records, as single rows would hold them."""
    run_id = f"run{next(NUMBERS)}"
    begun = {"attempt": 1, "started_at": 0.0, "last_seen": 0.0, "last_step_at": 0.0, "stall_seconds": 1.0}
    repositories.runs.add(Run(id=run_id, project="p", name=run_id, source="", capability="L0", world_size=3, **begun))
    seqs, found = {}, []
    for rank, attempt, in_order, batch in log:
        repositories.attempts.enter(run_id, attempt, world_size=3, now=0.0, position=0)
        first_seq = seqs.get((attempt, rank), 0)
        sent = _sent(batch, first_seq=first_seq, in_order=in_order)
        seqs[attempt, rank] = first_seq + len(sent) + 3  # some numbers are never sent
        begin = len(found)
        repositories.records.add(run_id, pack_blocks(sent, attempt=attempt, rank=rank, begin=begin))
        end = begin + len(sent)
        found += [StoredRecord(begin + place, end, attempt, rank, *each) for place, each in enumerate(sent, start=1)]
    return run_id, found


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(log=LOG, limit=st.integers(1, 60), bounds=st.builds(StepBounds, records=st.integers(1, 4), body_bytes=SIZES))
def test_readers_find_in_blocks_what_single_rows_would_have_given(store, log, limit, bounds):
    """Steps with their ranks, sequence numbers, spans of attempts, and the log in whole batches."""
    with store.write() as repositories:
        run_id, found = _append(repositories, log)
    with store.read() as repositories:
        records = repositories.records
        for attempt in (1, 2):
            of_attempt = [each for each in found if each.attempt == attempt]
            steps = sorted({each.step for each in of_attempt})
            asked = {*steps, *(step + 1 for step in steps)}
            read = dict(records.of_steps(run_id, attempt, asked, bounds=UNBOUNDED))
            assert sorted(read) == steps
            for step in steps:
                of_step = [each for each in of_attempt if each.step == step]
                assert read[step].records == sorted(of_step, key=lambda each: (-each.rank, each.seq))
                assert records.ranks(run_id, attempt, step, up_to=2**62) == {each.rank for each in of_step}
                some = records.some_bodies(run_id, attempt, step, limit=3)
                assert set(some) <= {each.body for each in of_step}
                assert some
            for step, stored in records.of_steps(run_id, attempt, asked, bounds=bounds):
                of_step = [each for each in of_attempt if each.step == step]
                sizes = itertools.accumulate(len(each.body) for each in of_step)
                fitting = itertools.takewhile(
                    lambda each: bounds.allow(records=each[0], body_bytes=each[1]), enumerate(sizes, 1)
                )
                count = sum(1 for _ in fitting)
                assert sorted(stored.records) == of_step[:count]
                assert (stored.left_out, stored.end) == (len(of_step) - count, of_step[count - 1].position)
            for rank in range(3):
                seqs = {each.seq for each in of_attempt if each.rank == rank}
                assert records.stored_seqs(run_id, attempt, rank, range(300)) == seqs
                assert records.last_seq(run_id, attempt, rank) == max(seqs, default=-1)
        spans = [(each.first_step, each.last_step) for each in repositories.attempts.spans(run_id)]
        by_attempt = [[each.step for each in found if each.attempt == attempt] for attempt in (1, 2)]
        assert spans == [(min(steps), max(steps)) for steps in by_attempt if steps]
        position, read_log, is_last = 0, [], False
        while not is_last:
            part, is_last = records.after(run_id, position, limit=limit, max_bytes=100_000)
            read_log += part
            position = read_log[-1].batch
            assert read_log[-1].position == position  # whole batches
        assert read_log == found


def test_a_step_of_which_there_are_many_blocks_is_read_to_its_bounds(store):
    """Blocks that reach over the step and have no record of it do not count."""
    over = [(rank, 1, True, [(0, 1), (2, 1)]) for rank in range(3)] * 3
    with store.write() as repositories:
        run_id, found = _append(repositories, [*over, *((rank, 1, True, [(1, 1)]) for rank in (0, 1, 2, 0, 1, 2))])
    of_step = [each for each in found if each.step == 1]
    with store.read() as repositories:
        bounds = StepBounds(records=4, body_bytes=10**6)
        ((step, stored),) = repositories.records.of_steps(run_id, 1, [1], bounds=bounds)
    assert (step, sorted(stored.records), stored.left_out) == (1, of_step[:4], 2)


def test_rows_of_before_there_were_blocks_are_blocks_of_one_record(store):
    """They have no entries, and are read as they were."""
    sent = [Sent(4, 9, b"a"), Sent(5, 10, b"b")]
    with store.write() as repositories:
        run_id, _ = _append(repositories, [(0, 1, True, [(8, 1)])])
        connection = current_connection()
        for position, each in enumerate(sent, start=2):
            row = {"run_id": run_id, "position": position, "batch": 3, "attempt": 1, "rank": 0}
            connection.execute(sqlalchemy.insert(table), row | each._asdict())
    with store.read() as repositories:
        found, is_last = repositories.records.after(run_id, 1, limit=10, max_bytes=100)
        assert (found, is_last) == ([StoredRecord(2, 3, 1, 0, *sent[0]), StoredRecord(3, 3, 1, 0, *sent[1])], True)
        assert repositories.records.stored_seqs(run_id, 1, 0, [3, 4, 5, 6]) == {4, 5}
        read = functools.partial(repositories.records.of_steps, run_id, 1, bounds=UNBOUNDED)
        assert [(step, len(stored.records)) for step, stored in read([9, 10, 11])] == [(9, 1), (10, 1)]


@sqlite_only
def test_steps_are_looked_for_by_their_index_and_not_in_the_whole_log(store):
    """SQLite would take the order of the log for a reason to read all of it."""
    with noted_statements() as asked, store.read() as repositories:
        list(repositories.records.of_steps("r", 1, [1], bounds=UNBOUNDED))
    ((statement, parameters),) = [each for each in asked if "FROM records" in each[0]]
    searched = [detail for detail in query_plan(store, statement, parameters) if "records" in detail]
    assert len(searched) == 2
    assert all("ix_records_steps" in detail for detail in searched)


def test_numbers_at_the_end_of_what_four_bytes_hold_are_looked_up(store):
    """PostgreSQL would add to such a number in four bytes, and refuse the sum."""
    highest = 2**31 - 1
    with store.write() as repositories:
        run_id, _ = _append(repositories, [(0, 1, True, [(highest, 1)])])
        blocks = pack_blocks([Sent(highest, highest, b"x")], attempt=1, rank=0, begin=1)
        repositories.records.add(run_id, blocks)
    with store.read() as repositories:
        records = repositories.records
        assert records.stored_seqs(run_id, 1, 0, [highest]) == {highest}
        assert records.ranks(run_id, 1, highest, up_to=2) == {0}
        assert len(records.some_bodies(run_id, 1, highest, limit=3)) == 2
        ((step, stored),) = records.of_steps(run_id, 1, [highest], bounds=UNBOUNDED)
        assert (step, len(stored.records)) == (highest, 2)
