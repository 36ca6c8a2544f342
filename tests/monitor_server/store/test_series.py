"""Compacted signals: in any order of writing, the series that is read equals the rows that were written."""

import math
import uuid

import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update

from monitor_server.ingest.reset import reset_run
from monitor_server.store import tables
from monitor_server.store.encoding import chunks
from monitor_server.store.repositories.log.blocks import StoredRecord, pack_blocks
from monitor_server.store.repositories.runs import Run
from monitor_server.store.repositories.series import compaction, reading, step_rows
from monitor_server.store.repositories.series.downsampling import downsample
from monitor_server.store.repositories.steps import Step
from tests.store_connections import count_chunks, current_connection

NAMES = ["a", "b", "c"]
POSITIONS = {name: place for place, name in enumerate(NAMES)}
COMMON = {"project": "p", "source": "", "capability": "L1", "world_size": 1, "attempt": 1, "started_at": 0.0}
TIMES = {"last_seen": 0.0, "last_step_at": 0.0, "stall_seconds": 300.0}
BITS = np.dtype("<u8")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks of 8 steps behind a tail of 4, and rows read two at a time, so that few steps are enough."""
    monkeypatch.setattr(compaction, "CHUNK_STEPS", 8)
    monkeypatch.setattr(compaction, "TAIL_STEPS", 4)
    monkeypatch.setattr(step_rows, "ROWS_READ_AT_ONCE", 2)


def _new_run(repositories):
    name = uuid.uuid4().hex
    repositories.runs.add(Run(id=name, name=name, **COMMON, **TIMES))
    repositories.steps.add_signals(name, NAMES, start=0)
    return name


def _compact(repositories, run_id, *, newest_step):
    """Compact the steps that are due first, and return whether there were any."""
    chunk = repositories.compaction.next_chunk(run_id, newest_step=newest_step)
    if chunk is not None:
        repositories.compaction.add(run_id, chunk)
    return chunk is not None


VALUES = st.dictionaries(st.sampled_from(NAMES), st.floats(), max_size=3)
WRITES = st.lists(
    st.tuples(st.sampled_from([1, 2, 3]), st.integers(0, 60), VALUES, st.booleans()), min_size=20, max_size=80
)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    writes=WRITES,
    values=st.lists(st.floats(), min_size=61, max_size=61),
    cut=st.tuples(st.integers(1, 7), st.integers(0, 30), st.integers(20, 60)),
)
def test_summaries_hold_what_a_naive_reading_finds(store, monkeypatch, writes, values, cut):
    """Every point is a true one with its time, and each signal's least and largest number and a NaN are among them.

    Means are of all numbers. Both are those of the range alone, wherever it cuts a block.

    Steps of one stride are rewound, mended and joined by late ones afterwards, so that regular and irregular chunks
    stand beside each other.
    """
    stride, low, high = cut
    monkeypatch.setattr(reading, "ROWS_PER_POINT", 1)
    truth = {(step, 1): {"a": values[step]} for step in range(0, 61, stride)}
    with store.write() as repositories:
        run_id = _new_run(repositories)
        rows = [Step(step=step, attempt=1, time=step / 3, signals=given) for (step, _), given in truth.items()]
        repositories.steps.put(run_id, rows, replace=False, positions=POSITIONS)
        while _compact(repositories, run_id, newest_step=64):
            pass
        for attempt, step, given, compacts in writes[:8]:
            truth[step, attempt] = given
            row = Step(step=step, attempt=attempt, time=step / 3, signals=given)
            repositories.steps.put(run_id, [row], replace=True, positions=POSITIONS)
            if compacts:
                _compact(repositories, run_id, newest_step=64)
        ends = {"from_step": low, "to_step": high, "max_points": 0}  # summaries, however few steps there are
        found = repositories.series.read(run_id, NAMES, **ends, with_times=True)
        means = repositories.series.read(run_id, NAMES, **ends, statistic="mean")
    assert [column.signal for column in found] == NAMES
    newest = {step: given for (step, _), given in sorted(truth.items()) if low <= step <= high}
    for column, mean in zip(found, means, strict=True):
        wanted = {step: given[column.signal] for step, given in newest.items() if column.signal in given}
        points = dict(zip(column.steps.tolist(), column.values.tolist(), strict=True))
        assert list(points) == sorted(points)
        assert column.times.tolist() == [step / 3 for step in points]
        np.testing.assert_array_equal(list(points.values()), [wanted[step] for step in points])
        numbers = [value for value in wanted.values() if math.isfinite(value)]
        assert not numbers or {min(numbers), max(numbers)} <= set(points.values())
        counts = np.isfinite(mean.values) if mean.counts is None else mean.counts
        assert counts.sum() == len(numbers)
        wholes = np.where(counts > 0, mean.values, 0.0) * (counts / max(len(numbers), 1))
        assert wholes.sum() == pytest.approx(
            math.fsum(value / len(numbers) for value in numbers),
            abs=1e-9 * max(map(abs, numbers), default=0.0),
        )
        assert any(map(math.isnan, points.values())) == any(map(math.isnan, wanted.values()))


@given(first=st.integers(0, 2**40), differences=st.lists(st.integers(1, 2**20), max_size=40), stride=st.booleans())
def test_step_numbers_are_encoded_to_the_last_bit(first, differences, stride):
    """Steps of one stride take the same few bytes however many they are; any others are stored by differences."""
    if stride:
        differences = differences[:1] * len(differences)
    steps = np.cumsum([first, *differences])
    encoded = chunks.encode_steps(steps)
    assert list(chunks.decode_steps(encoded)) == steps.tolist()
    assert len(set(differences)) > 1 or len(encoded) == 25


@given(times=st.lists(st.floats(allow_nan=False), max_size=40))
def test_chunks_of_earlier_versions_are_read(times):
    """Steps as compressed differences and times as compressed floats, which the first versions wrote."""
    numbers = np.arange(len(times)) * 5
    written = zstandard.compress(np.diff(numbers, prepend=0).astype("<i8").tobytes())
    assert list(chunks.decode_steps(written)) == numbers.tolist()
    assert chunks.decode_times(zstandard.compress(np.array(times, dtype="<f8").tobytes())).tolist() == times
    assert chunks.decode_times(chunks.encode_times(np.array(times))).tolist() == times


@pytest.mark.parametrize("encoded", [b"r", b"r" + b"\0" * 24, b"r" + b"\xff" * 24, b"", b"\x28\xb5\x2f\xfd"])
def test_damaged_step_numbers_are_found(store, filled, encoded):
    """Bytes that are no steps of the chunk: its steps are read from their rows."""
    with store.write() as repositories:
        here = tables.chunks.c.first_step == 40
        current_connection().execute(update(tables.chunks).where(here).values(steps=encoded))
        (read,) = repositories.series.read(filled, ["a"])
    assert read.steps.tolist() == list(range(160))


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(writes=WRITES, span=st.tuples(st.none() | st.integers(0, 40), st.none() | st.integers(20, 60)))
def test_what_is_read_is_what_was_written_last(store, writes, span):
    """Steps in order, rewound by later attempts, mended and sparse, with compaction in between: to the last bit."""
    truth: dict[tuple[int, int], dict[str, float]] = {}
    with store.write() as repositories:
        run_id = _new_run(repositories)
        for attempt, step, values, compacts in writes:
            truth[step, attempt] = values
            row = Step(step=step, attempt=attempt, time=float(step), signals=values)
            repositories.steps.put(run_id, [row], replace=True, positions=POSITIONS)
            if compacts:
                _compact(repositories, run_id, newest_step=step)
        for _ in range(12):
            _compact(repositories, run_id, newest_step=64)
        low, high = span
        found = repositories.series.read(run_id, [*NAMES, "unknown"], from_step=low, to_step=high, with_times=True)
    assert [column.signal for column in found] == [*NAMES, "unknown"]
    newest = {step: values for (step, _), values in sorted(truth.items())}
    for column in found:
        wanted = {
            step: values[column.signal]
            for step, values in newest.items()
            if column.signal in values and (low or 0) <= step <= (60 if high is None else high)
        }
        assert column.steps.tolist() == list(wanted)
        assert column.times.tolist() == [float(step) for step in wanted]
        ordinary = [math.nan if math.isnan(value) else value for value in wanted.values()]
        assert column.values.view(BITS).tolist() == np.array(ordinary, dtype=np.float64).view(BITS).tolist()


@pytest.fixture
def filled(store):
    """A run of 160 steps, compacted but for its tail, with a spike, a NaN and an infinity."""
    values = np.sin(np.arange(160) / 20)
    values[83], values[96], values[117] = 50.0, np.nan, -np.inf
    with store.write() as repositories:
        run_id = _new_run(repositories)
        rows = [
            Step(step=step, attempt=1, time=0.0, signals={"a": value}) for step, value in enumerate(values.tolist())
        ]
        repositories.steps.put(run_id, rows, replace=False, positions=POSITIONS)
        while _compact(repositories, run_id, newest_step=159):
            pass
    return run_id


def test_a_chart_of_many_steps_reads_summaries_and_keeps_the_extremes(store, filled, monkeypatch):
    """Fewer points than steps are read, and the spike, the NaN and the infinity are among them."""
    monkeypatch.setattr(reading, "ROWS_PER_POINT", 4)
    with store.read() as repositories:
        (column,) = repositories.series.read(filled, ["a"], to_step=110, max_points=24)
    assert len(column.steps) < 55
    thin = dict(zip(*(part.tolist() for part in (column.steps, column.values)), strict=True))
    assert thin[83] == 50.0
    assert math.isnan(thin[96])
    shown = downsample(column, max_points=24)
    assert 50.0 in shown.values
    assert len(shown.steps) <= 24


def test_an_infinity_hides_no_extreme_of_its_block(store, filled, monkeypatch):
    """The least number of the block of -∞ is read as well: a summary has only one of the two.

    The values that are read instead are thinned at once, since all values of many signals take much memory.
    """
    monkeypatch.setattr(reading, "ROWS_PER_POINT", 3)
    with store.read() as repositories:
        (column,) = repositories.series.read(filled, ["a"], from_step=112, to_step=155, max_points=10)
    thin = dict(zip(*(part.tolist() for part in (column.steps, column.values)), strict=True))
    assert (thin[112], thin[117]) == (math.sin(112 / 20), -math.inf)
    assert len(thin) < 20


@pytest.mark.parametrize("counts", ["kept", "of an earlier version"])
def test_a_chart_of_many_steps_reads_means_of_blocks(store, filled, monkeypatch, counts):
    """One point for each 8 steps, of the 158 numbers; more, from the values, where an earlier version had no means."""
    monkeypatch.setattr(reading, "ROWS_PER_POINT", 4)
    monkeypatch.setattr(chunks, "BLOCK_ROWS", 8)
    with store.write() as repositories:
        if counts != "kept":
            for first_step, blob in (
                current_connection()
                .execute(select(tables.chunk_values.c.first_step, tables.chunk_values.c.summary))
                .all()
            ):
                blocks = np.frombuffer(blob, dtype=chunks.SUMMARY).copy()
                blocks["count"], blocks["mean"] = 0, 0.0
                here = tables.chunk_values.c.first_step == first_step
                current_connection().execute(update(tables.chunk_values).where(here).values(summary=blocks.tobytes()))
        (means,) = repositories.series.read(filled, ["a"], max_points=24, statistic="mean")
    values = np.sin(np.arange(160) / 20)
    values[83], values[96], values[117] = 50.0, 0.0, 0.0
    held = np.isfinite(means.values) if means.counts is None else means.counts
    assert (len(means.steps) < 40) == (counts == "kept")
    assert held.sum() == 158
    assert np.nansum(np.where(held > 0, means.values, np.nan) * held) == pytest.approx(values.sum())


@pytest.mark.parametrize("max_points", [None, 24])
@pytest.mark.parametrize("column", ["steps", "times", "packed", "summary"])
def test_a_chunk_that_cannot_be_decoded_is_read_from_its_rows(store, filled, monkeypatch, column, max_points):
    """A chunk repeats the rows of steps: its damage costs time, and no step."""
    monkeypatch.setattr(reading, "ROWS_PER_POINT", 4)
    other = chunks.encode_times(np.zeros(3)) if column == "packed" else b"\xc1"
    table = tables.chunks if column in ("steps", "times") else tables.chunk_values
    with store.write() as repositories:
        current_connection().execute(update(table).where(table.c.first_step == 40).values({column: other}))
    with store.read() as repositories:
        (read,) = repositories.series.read(filled, ["a"], max_points=max_points, with_times=True)
    shown = dict(zip(read.steps.tolist(), read.values.tolist(), strict=True))
    is_read = column in ("steps", "times") or (column == "summary") == (max_points is not None)
    if max_points is None or is_read:  # where the damage is not read, two steps of the chunk are its extremes
        assert set(range(40, 48)) <= shown.keys()
    assert shown[83] == 50.0


def test_a_step_that_is_written_into_a_chunk_costs_that_chunk_alone(store, filled):
    """The step is read from its row until it is compacted again; the others stay."""
    with store.write() as repositories:
        before = count_chunks(filled)
        mended = Step(step=20, attempt=2, time=0.0, signals={"a": 7.0})
        repositories.steps.put(filled, [mended], replace=True, positions=POSITIONS)
        assert count_chunks(filled) == before - 1
        assert repositories.series.read(filled, ["a"], from_step=20, to_step=20)[0].values.tolist() == [7.0]
        assert _compact(repositories, filled, newest_step=159)
        assert count_chunks(filled) == before
        assert repositories.series.read(filled, ["a"], from_step=20, to_step=20)[0].values.tolist() == [7.0]


def test_a_reset_that_removes_no_attempt_keeps_the_chunks(store, filled):
    """Steps whose chunks are gone, as after a reset by an earlier version, are compacted again."""
    with store.write() as repositories:
        before = count_chunks(filled)
        repositories.attempts.enter(filled, 1, world_size=1, now=0.0, position=1)
        reset_run(repositories, filled, attempt=1, now=0.0)
        assert count_chunks(filled) == before
        repositories.compaction.remove_from(filled, 0)
        while _compact(repositories, filled, newest_step=159):
            pass
        assert count_chunks(filled) == before
        assert len(repositories.series.read(filled, ["a"])[0].steps) == 160


def test_a_reset_keeps_the_chunks_before_the_removed_attempts(store, filled):
    """A stray attempt without a step costs no chunk; one from step 96 on costs those from there on."""

    def first_steps(table):
        query = select(table.c.first_step).where(table.c.run_id == filled).order_by(table.c.first_step)
        return list(current_connection().execute(query).scalars())

    stray = StoredRecord(position=9, batch=9, attempt=2, rank=0, seq=0, step=96, body=b"x")
    with store.write() as repositories:
        before = first_steps(tables.chunks)
        for number in (1, 2, 3):
            repositories.attempts.enter(filled, number, world_size=1, now=0.0, position=number)
        repositories.records.add(filled, pack_blocks([stray], attempt=2, rank=0, begin=8))
        reset_run(repositories, filled, attempt=2, now=0.0)
        assert first_steps(tables.chunks) == first_steps(tables.chunk_values) == before
        reset_run(repositories, filled, attempt=1, now=0.0)
        assert set(repositories.attempts.ordinals(filled)) == {1}
        assert first_steps(tables.chunks) == first_steps(tables.chunk_values) == list(range(0, 96, 8))


def test_a_blob_that_declares_any_size_is_damaged():
    """One flipped bit turns the size of 2 bytes into one of 8, and no memory has room for it."""
    blob = bytearray(chunks.encode_floats(np.random.default_rng(1).normal(size=1_000)))
    blob[4] ^= 0x80
    with pytest.raises(chunks.DAMAGE):
        chunks.decode_floats(bytes(blob))


def test_a_block_says_where_its_extremes_are():
    """Of [3, NaN, -1, inf, absent, 2] the least is -1 at 2, the largest inf at 3, and the first NaN at 1; 3 are finite.

    Where all numbers of a block are infinite, no other value takes their place.
    """
    values = np.array([3.0, np.nan, -1.0, np.inf, 0.0, 2.0])
    observed = np.array([True, True, True, True, False, True])
    (block,) = np.frombuffer(chunks.summarise(values, observed), dtype=chunks.SUMMARY)
    assert (block["minimum"], block["maximum"]) == (-1.0, np.inf)
    assert (block["at_minimum"], block["at_maximum"], block["at_nan"]) == (2, 3, 1)
    assert (block["count"], block["mean"]) == (3, pytest.approx(4 / 3))
    values[:4] = [0.0, np.nan, np.inf, np.inf]
    observed[[0, 5]] = False
    (block,) = np.frombuffer(chunks.summarise(values, observed), dtype=chunks.SUMMARY)
    assert (block["minimum"], block["at_minimum"], block["at_maximum"]) == (np.inf, 2, 2)
