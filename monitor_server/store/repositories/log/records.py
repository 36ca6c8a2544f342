"""The log of records in the form in which the ranks sent them."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, func, select

from monitor_server.store.repositories.log.blocks import (
    SPAN,
    RecordBlock,
    StoredRecord,
    block_entries,
    block_records,
    block_steps,
)
from monitor_server.store.repositories.log.extensions import INSERT_BLOCKS, Extension, extend_logs
from monitor_server.store.repositories.log.step_records import (
    BLOCK_COLUMNS,
    HIGH,
    StepBounds,
    StoredStep,
    blocks_of_steps,
    read_steps,
)
from monitor_server.store.repositories.removed_attempts import is_kept
from monitor_server.store.statements import in_ranges
from monitor_server.store.tables import records

__all__ = ["Records"]

# Built once: building these queries takes SQLAlchemy longer than SQLite takes to answer them, and each batch uses them.
_OF_RANK = (
    records.c.run_id == bindparam("run"),
    records.c.attempt == bindparam("attempt"),
    records.c.rank == bindparam("rank"),
)
_SEEN = select(records.c.entries, records.c.seq, records.c.step).where(
    *_OF_RANK,
    records.c.seq >= bindparam("low"),
    records.c.seq < HIGH + SPAN,
    records.c.seq - records.c.seq_span <= HIGH,
)
_SOME_OF_STEP = blocks_of_steps(*BLOCK_COLUMNS, up_to=False).limit(bindparam("limit"))
# The lengths are read without the bodies, which may have many megabytes.
_AHEAD = (
    select(records.c.batch, records.c.record_count, func.length(records.c.body))
    .where(
        records.c.run_id == bindparam("run"),
        records.c.position > bindparam("after"),
        is_kept(records.c.attempt, bindparam("run")),
    )
    .order_by(records.c.position)
    .limit(bindparam("limit"))
)
_UP_TO = (
    select(*BLOCK_COLUMNS)
    .where(
        records.c.run_id == bindparam("run"),
        records.c.position > bindparam("after"),
        records.c.position <= bindparam("up_to"),
        is_kept(records.c.attempt, bindparam("run")),
    )
    .order_by(records.c.position)
)
_LAST_SEQ = select(func.max(records.c.seq)).where(*_OF_RANK)
_LAST_STEP = select(records.c.step).where(*_OF_RANK).order_by(records.c.seq.desc()).limit(1)
_STEPS = blocks_of_steps(records.c.entries, records.c.seq, records.c.step)
_RANKS = blocks_of_steps(records.c.rank, records.c.entries, records.c.seq, records.c.step, func.length(records.c.body))
END = 2**62
# Sequence numbers at most this far apart are looked up together: a statement costs as much as reading that many rows.
SEQS_BETWEEN = 256


class Records:
    """Reads and appends the records of the log."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def stored_seqs(self, run_id: str, attempt: int, rank: int, seqs: Collection[int]) -> set[int]:
        """Return those of ``seqs`` that are already stored."""
        stored: set[int] = set()
        for some in in_ranges(seqs, gap=SEQS_BETWEEN):
            asked = {"run": run_id, "attempt": attempt, "rank": rank, "low": some[0], "high": some[-1]}
            for entries, seq, step in self._connection.execute(_SEEN, asked):
                stored.update(each for each, _, _ in block_entries(entries, seq=seq, step=step))
        return stored.intersection(seqs)

    def last_seq(self, run_id: str, attempt: int, rank: int) -> int:
        """Return the highest sequence number of a rank in an attempt, -1 before its first record."""
        asked = {"run": run_id, "attempt": attempt, "rank": rank}
        last = self._connection.execute(_LAST_SEQ, asked).scalar()
        return -1 if last is None else int(last)

    def last_step(self, run_id: str, attempt: int, rank: int) -> int:
        """Return the step of the last record of a rank in an attempt, -1 before its first record."""
        asked = {"run": run_id, "attempt": attempt, "rank": rank}
        last = self._connection.execute(_LAST_STEP, asked).scalar()
        return -1 if last is None else int(last)

    def add(self, run_id: str, new: Iterable[RecordBlock]) -> None:
        """Append blocks of new records to a run that is locked; the caller writes the end of its log."""
        INSERT_BLOCKS.execute(self._connection, [(run_id, *block) for block in new])

    def extend(self, extensions: Sequence[Extension], *, ends_transaction: bool = False) -> bool:
        """Append records to the ends of the logs of runs, as `extend_logs` describes."""
        return extend_logs(self._connection, extensions, ends_transaction=ends_transaction)

    def of_steps(
        self, run_id: str, attempt: int, steps: Collection[int], *, bounds: StepBounds, up_to: int = END
    ) -> Iterator[tuple[int, StoredStep]]:
        """Yield the merged records of some steps of an attempt, in ascending order; a step without records is left out.

        Args:
            run_id: The run.
            attempt: The attempt.
            steps: The steps.
            bounds: The bounds on the merge of each step.
            up_to: The last position of the log that is read.
        """
        return read_steps(self._connection, run_id, attempt, steps, bounds=bounds, up_to=up_to)

    def some_bodies(self, run_id: str, attempt: int, step: int, *, limit: int) -> list[bytes]:
        """Return the bodies of any records of a step, at most ``limit``."""
        asked = {"run": run_id, "attempt": attempt, "low": step, "high": step, "limit": limit}
        blocks = self._connection.execute(_SOME_OF_STEP, asked)
        found = [each.body for block in blocks for each in block_records(RecordBlock._make(block)) if each.step == step]
        return found[:limit]

    def recorded_steps(self, run_id: str, attempt: int, steps: Collection[int], *, up_to: int) -> set[int]:
        """Return those of some steps of an attempt of which the log up to a position has a record."""
        recorded: set[int] = set()
        for some in in_ranges(steps, gap=SPAN):
            asked = {"run": run_id, "attempt": attempt, "low": some[0], "high": some[-1], "up_to": up_to}
            for entries, seq, step in self._connection.execute(_STEPS, asked):
                recorded.update(block_steps(entries, seq=seq, step=step))
        return recorded.intersection(steps)

    def ranks(self, run_id: str, attempt: int, step: int, *, up_to: int) -> set[int]:
        """Return the ranks whose record of a step is in the log up to a position, without removed records."""
        asked = {"run": run_id, "attempt": attempt, "low": step, "high": step, "up_to": up_to}
        return {
            rank
            for rank, entries, seq, last_step, length in self._connection.execute(_RANKS, asked)
            if length and step in block_steps(entries, seq=seq, step=last_step)
        }

    def after(self, run_id: str, position: int, *, limit: int, max_bytes: int) -> tuple[list[StoredRecord], bool]:
        """Return whole batches after a position of the log, and whether they are the last ones.

        If any batch follows, there is at least one, and then about ``limit`` records of about ``max_bytes`` in all.
        """
        ahead = self._connection.execute(_AHEAD, {"run": run_id, "after": position, "limit": limit + 1}).all()
        if not ahead:
            return [], True
        end, is_last = _end_of_batches(ahead, limit=limit, max_bytes=max_bytes)
        rows = self._connection.execute(_UP_TO, {"run": run_id, "after": position, "up_to": end})
        return [record for row in rows for record in block_records(RecordBlock._make(row))], is_last


def _end_of_batches(ahead: Sequence[Any], *, limit: int, max_bytes: int) -> tuple[int, bool]:
    """Return the end of the batches to read, and whether no batch follows.

    Args:
        ahead: Batch, number of records and bytes of the next blocks, at most ``limit + 1``.
        limit: The approximate number of records to read.
        max_bytes: The approximate number of bytes to read.
    """
    end = records_read = bytes_read = 0
    is_last = len(ahead) <= limit
    batches = [batch for batch, _, _ in ahead]
    for (batch, count, length), following in zip(ahead, [*batches[1:], None], strict=True):
        records_read += count
        bytes_read += length
        if end and (records_read > limit or bytes_read > max_bytes):
            return end, False
        if following != batch and (following is not None or is_last):
            end = batch
    return end or batches[0], is_last
