"""Reads the records of some steps from the log, whose blocks contain many steps of many ranks."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, CompoundSelect, Connection, bindparam, func, select

from monitor_server.store.repositories.log.blocks import (
    SPAN,
    RecordBlock,
    StoredRecord,
    block_entries,
    block_records,
)
from monitor_server.store.statements import MAX_PARAMETERS, in_ranges
from monitor_server.store.tables import records

__all__ = ["BLOCK_COLUMNS", "HIGH", "StepBounds", "StoredStep", "blocks_of_steps", "read_steps"]

BLOCK_COLUMNS: Final = [records.c[name] for name in RecordBlock._fields]


# This form keeps SQLite from using the key of the log, with which it would read the whole log of a run.
_POSITION: Final = records.c.position + 0
# For a parameter without a type, PostgreSQL would calculate in as many bytes as its value has.
HIGH: Final = bindparam("high", type_=BigInteger)


def blocks_of_steps(*columns: ColumnElement[Any], up_to: bool = True) -> CompoundSelect[*tuple[Any, ...]]:
    """Select columns of the blocks that overlap a range of steps, from ``low`` to ``high``, of an attempt of a run.

    A block ends in the range, or less than `SPAN` steps after it. The index shows which blocks of the second kind have
    several steps. So if thousands of ranks send each step on its own, blocks of later steps are not read.

    Args:
        columns: The columns.
        up_to: Whether to select only the log up to the position of this name.
    """
    here = [records.c.run_id == bindparam("run"), records.c.attempt == bindparam("attempt")]
    if up_to:
        here.append(bindparam("up_to") >= _POSITION)
    inside = select(*columns).where(*here, records.c.step >= bindparam("low"), records.c.step <= HIGH)
    behind = select(*columns).where(
        *here,
        records.c.step > HIGH,
        records.c.step < HIGH + SPAN,
        records.c.step_span > 0,
        records.c.step - records.c.step_span <= HIGH,
    )
    return inside.union_all(behind)


# The lengths are read without the bodies, which may have many megabytes.
_FOUND = blocks_of_steps(
    _POSITION.label("position"), records.c.entries, records.c.seq, records.c.step, func.length(records.c.body)
).order_by("position")
_FIRST_FOUND = _FOUND.limit(bindparam("limit"))
_AT = select(*BLOCK_COLUMNS).where(
    records.c.run_id == bindparam("run"), records.c.position.in_(bindparam("positions", expanding=True))
)
# The limit for several steps that are read together; one step is read as a whole.
BYTES_READ_AT_ONCE = 8 * 1024 * 1024
ROWS_READ_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBounds:
    """The bounds on the merge of one step of one attempt: its first records in the log, up to either bound.

    Attributes:
        records: The largest number of records.
        body_bytes: The largest number of bytes in their bodies; the first record is merged whatever its size.
    """

    records: int
    body_bytes: int

    def allow(self, *, records: int, body_bytes: int) -> bool:
        """Whether this many records of this many bytes are merged."""
        return records <= 1 or (records <= self.records and body_bytes <= self.body_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredStep:
    """The merged part of a step.

    Attributes:
        records: Its records in the order in which `wire.merge` takes them.
        left_out: The number of its records beyond the bounds.
        end: The position of the last record that is merged.
    """

    records: list[StoredRecord]
    left_out: int
    end: int


class _RecordPlace(NamedTuple):
    """The place of a record: its position and length, and those of its block."""

    position: int
    length: int
    block: int
    block_length: int


@dataclass(slots=True)
class _FoundStep:
    """The first records of a step, and the number of its records."""

    places: list[_RecordPlace] = field(default_factory=list)
    count: int = 0


def read_steps(
    connection: Connection, run_id: str, attempt: int, steps: Collection[int], *, bounds: StepBounds, up_to: int
) -> Iterator[tuple[int, StoredStep]]:
    """Yield the merged records of some steps of an attempt, in ascending order; a step without records is left out.

    Bodies are read for several steps at once, up to `BYTES_READ_AT_ONCE`, and only within the bounds.

    Args:
        connection: The database.
        run_id: The run.
        attempt: The attempt.
        steps: The steps.
        bounds: The bounds on the merge of each step.
        up_to: The last position of the log that is read.
    """
    together: dict[int, tuple[list[_RecordPlace], int]] = {}
    size = 0
    for some in in_ranges(steps, gap=SPAN):
        asked = {"run": run_id, "attempt": attempt, "up_to": up_to}
        for step, found in _find(connection, asked, some, bounds):
            totals = accumulate(place.length for place in found.places)
            fitting = takewhile(lambda each: bounds.allow(records=each[0], body_bytes=each[1]), enumerate(totals, 1))
            kept = [total for _, total in fitting]
            if together and size + kept[-1] > BYTES_READ_AT_ONCE:
                yield from _read(connection, run_id, together)
                together, size = {}, 0
            together[step] = found.places[: len(kept)], found.count - len(kept)
            size += kept[-1]
    yield from _read(connection, run_id, together)


def _find(
    connection: Connection, asked: Mapping[str, Any], steps: Sequence[int], bounds: StepBounds
) -> Iterator[tuple[int, _FoundStep]]:
    """Yield the places of the first records of steps that are close together, in ascending order."""
    limit = bounds.records + 1
    asked = {**asked, "low": steps[0], "high": steps[-1], "limit": limit}
    first = connection.execute(_FIRST_FOUND, asked).all()
    rows: Iterable[Any] = first
    if len(first) == limit:
        if len(steps) > 1:  # together they have too many records, so each is read on its own
            for step in steps:
                yield from _find(connection, asked, [step], bounds)
            return
        streamed = {"stream_results": True, "max_row_buffer": ROWS_READ_AT_ONCE}
        rows = connection.execute(_FOUND, asked, execution_options=streamed)
    found = {step: _FoundStep() for step in steps}
    for block, entries, last_seq, last_step, block_length in rows:
        each = block_entries(entries, seq=last_seq, step=last_step, length=block_length)
        for position, (_, step, length) in enumerate(each, start=block - len(each) + 1):
            of_step = found.get(step)
            if of_step is not None:
                of_step.count += 1
                if of_step.count <= limit:
                    of_step.places.append(_RecordPlace(position, length, block, block_length))
    for step, of_step in found.items():
        if of_step.count:
            yield step, of_step


def _read(
    connection: Connection, run_id: str, wanted: Mapping[int, tuple[list[_RecordPlace], int]]
) -> Iterator[tuple[int, StoredStep]]:
    """Yield steps, given the places of their records and the number of records that are left out."""
    found: dict[int, list[StoredRecord]] = {step: [] for step in wanted}
    places = [place for places, _ in wanted.values() for place in places]
    positions = {place.position for place in places}
    for some in _parts({place.block: place.block_length for place in places}):
        for row in connection.execute(_AT, {"run": run_id, "positions": some}):
            for record in block_records(RecordBlock._make(row)):
                if record.position in positions:
                    found[record.step].append(record)
    for step, (of_step, left_out) in wanted.items():
        ordered = sorted(found.pop(step), key=lambda record: (-record.rank, record.seq))
        yield step, StoredStep(records=ordered, left_out=left_out, end=of_step[-1].position)


def _parts(blocks: Mapping[int, int]) -> Iterator[list[int]]:
    """Yield the positions of blocks in parts that are read at once, given the length of each block."""
    part: list[int] = []
    size = 0
    for position, length in blocks.items():
        if part and (len(part) == MAX_PARAMETERS or size + length > BYTES_READ_AT_ONCE):
            yield part
            part, size = [], 0
        part.append(position)
        size += length
    if part:
        yield part
