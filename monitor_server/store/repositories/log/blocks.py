"""Blocks of the log: successive records of one rank of one batch, which are stored in one row.

A row and its entries in three indexes cost more than the records of a small step, so a batch of ten steps is appended
as one row. Each block spans few steps, few sequence numbers and few bytes, so that a search for one step, or for one
sequence number, reads few other records.
"""

import logging
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

import msgspec

__all__ = [
    "SPAN",
    "NewRecord",
    "RecordBlock",
    "StoredRecord",
    "block_entries",
    "block_records",
    "block_steps",
    "pack_blocks",
]

log = logging.getLogger(__name__)

# The steps of a block span a range of at most this many numbers, and so do its sequence numbers.
SPAN: Final = 32
# The limit for all bodies of a block, unless it has one record: these bytes are read in vain beside a wanted record.
MAX_BLOCK_BYTES: Final = 16 * 1024
_ENTRIES = msgspec.msgpack.Decoder(list[int])


class StoredRecord(NamedTuple):
    """One record of one rank in its run's log, its body in msgpack; ``batch`` is the last position of its batch."""

    position: int
    batch: int
    attempt: int
    rank: int
    seq: int
    step: int
    body: bytes


class RecordBlock(NamedTuple):
    """One row of the log, in the order of its columns.

    Attributes:
        position: The position of its last record; the earlier records have the positions before it.
        batch: The last position of its batch.
        attempt: The attempt.
        rank: The rank.
        seq: The sequence number of its last record, the highest.
        step: The step of its last record, the highest.
        body: The bodies of all records, one after the other; empty once retention has removed them.
        record_count: The number of its records.
        seq_span: The difference between the sequence numbers of its last and its first record.
        step_span: The difference between the steps of its last and its first record.
        entries: Sequence number, step and length of each record, in msgpack; None for one record, because SQLite reads
            through a long body to a value that follows it.
    """

    position: int
    batch: int
    attempt: int
    rank: int
    seq: int
    step: int
    body: bytes
    record_count: int
    seq_span: int
    step_span: int
    entries: bytes | None


class NewRecord(Protocol):
    """The part of a new record that a block stores."""

    @property
    def seq(self) -> int:
        """Its sequence number."""

    @property
    def step(self) -> int:
        """Its step."""

    @property
    def body(self) -> bytes:
        """The record in msgpack."""


def pack_blocks(records: Sequence[NewRecord], *, attempt: int, rank: int, begin: int) -> list[RecordBlock]:
    """Return the records of a batch as the blocks that follow a position of the log.

    A record begins a new block if its sequence number is not higher than that of the record before, if its step is
    lower, or if the block would span too many of them, or contain too many bytes.

    Args:
        records: The records, in the order of the batch.
        attempt: The attempt of the batch.
        rank: Its rank.
        begin: The position after which they come.
    """
    if not records:
        return []
    starts, first, size = [0], records[0], len(records[0].body)
    for place, (before, record) in enumerate(pairwise(records), start=1):
        size += len(record.body)
        if (
            record.seq <= before.seq
            or record.step < before.step
            or record.seq - first.seq >= SPAN
            or record.step - first.step >= SPAN
            or size > MAX_BLOCK_BYTES
        ):
            starts.append(place)
            first, size = record, len(record.body)
    batch = begin + len(records)
    return [
        _block(records[start:end], position=begin + end, batch=batch, attempt=attempt, rank=rank)
        for start, end in pairwise([*starts, len(records)])
    ]


def _block(records: Sequence[NewRecord], *, position: int, batch: int, attempt: int, rank: int) -> RecordBlock:
    first, last = records[0], records[-1]
    entries = [number for record in records for number in (record.seq, record.step, len(record.body))]
    return RecordBlock(
        position=position,
        batch=batch,
        attempt=attempt,
        rank=rank,
        seq=last.seq,
        step=last.step,
        body=b"".join([record.body for record in records]),
        record_count=len(records),
        seq_span=last.seq - first.seq,
        step_span=last.step - first.step,
        entries=msgspec.msgpack.encode(entries) if len(records) > 1 else None,
    )


def block_entries(entries: bytes | None, *, seq: int, step: int, length: int = 0) -> list[tuple[int, int, int]]:
    """Return sequence number, step and length of each record of a block.

    Args:
        entries: The column of this name. If it is damaged, the block counts as one record, with a log line.
        seq: The column of this name.
        step: The column of this name.
        length: The bytes of all bodies. If it is 0, because the bodies are not read or retention has removed them, the
            length of each record is 0 as well.
    """
    if entries is None:
        return [(seq, step, length)]
    try:
        numbers = _ENTRIES.decode(entries)
        lengths = numbers[2::3] if length else [0] * (len(numbers) // 3)
        return list(zip(numbers[::3], numbers[1::3], lengths, strict=True))
    except (msgspec.DecodeError, ValueError) as error:
        log.warning("the records of the log up to step %d, number %d, cannot be told apart: %s", step, seq, error)
        return [(seq, step, length)]


def block_steps(entries: bytes | None, *, seq: int, step: int) -> list[int]:
    """Return the step of each record of a block; the arguments are those of `block_entries`."""
    return [each for _, each, _ in block_entries(entries, seq=seq, step=step)]


def block_records(block: RecordBlock) -> Iterator[StoredRecord]:
    """Yield the records of a block."""
    if block.entries is None:
        yield StoredRecord(block.position, block.batch, block.attempt, block.rank, block.seq, block.step, block.body)
        return
    entries = block_entries(block.entries, seq=block.seq, step=block.step, length=len(block.body))
    begin, first = 0, block.position - len(entries) + 1
    for position, (seq, step, length) in enumerate(entries, start=first):
        body = block.body[begin : begin + length]
        yield StoredRecord(position, block.batch, block.attempt, block.rank, seq, step, body)
        begin += length
