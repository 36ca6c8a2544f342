"""The log of records as the ranks sent them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, groupby, takewhile
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, func, select

from monitor_server.store.repositories.removed_attempts import is_kept
from monitor_server.store.statements import Insertion, in_parts
from monitor_server.store.tables import records

__all__ = ["Records", "StepBounds", "StoredRecord", "StoredStep"]


class StoredRecord(NamedTuple):
    """One record of one rank in its run's log, its body in msgpack; ``batch`` is the position of its batch's end.

    A tuple in the order of the columns, because ingest makes ten for each batch.
    """

    position: int
    batch: int
    attempt: int
    rank: int
    seq: int
    step: int
    body: bytes


# Built once: SQLAlchemy takes longer to build these than SQLite to answer them, and each batch asks them.
_SEEN = select(records.c.seq).where(
    records.c.run_id == bindparam("run"),
    records.c.attempt == bindparam("attempt"),
    records.c.rank == bindparam("rank"),
    records.c.seq.in_(bindparam("seqs", expanding=True)),
)
_COLUMNS = [records.c[name] for name in StoredRecord._fields]
_OF_STEP = (
    records.c.run_id == bindparam("run"),
    records.c.attempt == bindparam("attempt"),
    records.c.step.in_(bindparam("steps", expanding=True)),
    records.c.position <= bindparam("up_to"),
)
_SIZES = (
    select(records.c.step, records.c.position, func.length(records.c.body))
    .where(*_OF_STEP)
    .order_by(records.c.step, records.c.position)
    .limit(bindparam("limit"))
)
_COUNT = select(func.count()).select_from(records).where(*_OF_STEP)
_AT = select(*_COLUMNS).where(
    records.c.run_id == bindparam("run"), records.c.position.in_(bindparam("positions", expanding=True))
)
_SOME_OF_STEP = (
    select(records.c.body)
    .where(
        records.c.run_id == bindparam("run"),
        records.c.attempt == bindparam("attempt"),
        records.c.step == bindparam("step"),
    )
    .limit(bindparam("limit"))
)
# Lengths are read without the bodies, which may be many megabytes.
_AHEAD = (
    select(records.c.batch, func.length(records.c.body))
    .where(
        records.c.run_id == bindparam("run"),
        records.c.position > bindparam("after"),
        is_kept(records.c.attempt, bindparam("run")),
    )
    .order_by(records.c.position)
    .limit(bindparam("limit"))
)
_UP_TO = (
    select(*_COLUMNS)
    .where(
        records.c.run_id == bindparam("run"),
        records.c.position > bindparam("after"),
        records.c.position <= bindparam("up_to"),
        is_kept(records.c.attempt, bindparam("run")),
    )
    .order_by(records.c.position)
)
_LAST_SEQ = select(func.max(records.c.seq)).where(
    records.c.run_id == bindparam("run"), records.c.attempt == bindparam("attempt"), records.c.rank == bindparam("rank")
)
_ADD = Insertion(records, columns=["run_id", *StoredRecord._fields])
_RANKS = (
    select(records.c.rank)
    .where(
        records.c.run_id == bindparam("run"),
        records.c.attempt == bindparam("attempt"),
        records.c.step == bindparam("step"),
        records.c.position <= bindparam("up_to"),
    )
    .distinct()
)
END = 2**62
# Of several steps that are read together; one step is read as a whole.
BYTES_READ_AT_ONCE = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBounds:
    """How much of one step of one attempt is merged: the first records of it in the log, up to either bound.

    Attributes:
        records: The most records.
        body_bytes: The most bytes of their bodies; the first record is merged whatever its size.
    """

    records: int
    body_bytes: int

    def allow(self, *, records: int, body_bytes: int) -> bool:
        """Whether so many records of so many bytes are merged."""
        return records <= 1 or (records <= self.records and body_bytes <= self.body_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredStep:
    """What is merged of a step.

    Attributes:
        records: Its records in the order in which `wire.merge` takes them.
        left_out: How many others it has, beyond the bounds.
        end: The position of the last record that is merged.
    """

    records: list[StoredRecord]
    left_out: int
    end: int


class Records:
    """Reads and appends the records of the log."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def seen(self, run_id: str, attempt: int, rank: int, seqs: Collection[int]) -> set[int]:
        """Return those of ``seqs`` that are stored already."""
        found: set[int] = set()
        for some in in_parts(seqs):
            asked = {"run": run_id, "attempt": attempt, "rank": rank, "seqs": some}
            found.update(self._connection.execute(_SEEN, asked).scalars())
        return found

    def last_seq(self, run_id: str, attempt: int, rank: int) -> int:
        """Return the highest sequence number of a rank in an attempt, -1 before its first record."""
        asked = {"run": run_id, "attempt": attempt, "rank": rank}
        last = self._connection.execute(_LAST_SEQ, asked).scalar()
        return -1 if last is None else int(last)

    def add(self, run_id: str, new: Iterable[StoredRecord]) -> None:
        """Append records, none of which is stored."""
        self.add_to_runs((run_id, record) for record in new)

    def add_to_runs(self, new: Iterable[tuple[str, StoredRecord]]) -> None:
        """Append records of several runs, none of which is stored."""
        rows = [(run_id, *record) for run_id, record in new]
        _ADD.execute(self._connection, rows)

    def of_steps(
        self, run_id: str, attempt: int, steps: Collection[int], *, bounds: StepBounds, up_to: int = END
    ) -> Iterator[tuple[int, StoredStep]]:
        """Yield what is merged of some steps of an attempt, in ascending order; a step without records is left out.

        Bodies are read for as many steps at once as stay below `BYTES_READ_AT_ONCE`, and only those within the bounds.

        Args:
            run_id: The run.
            attempt: The attempt.
            steps: The steps.
            bounds: How much of each step is merged.
            up_to: The last position of the log that is read.
        """
        together: dict[int, tuple[list[int], int]] = {}
        size = 0
        for step, sizes in self._sizes(run_id, attempt, steps, bounds, up_to):
            totals = accumulate(length for _, length in sizes)
            fitting = takewhile(lambda each: bounds.allow(records=each[0], body_bytes=each[1]), enumerate(totals, 1))
            kept = [total for _, total in fitting]
            left_out = len(sizes) - len(kept)
            if len(sizes) > bounds.records:
                asked = {"run": run_id, "attempt": attempt, "steps": [step], "up_to": up_to}
                left_out = int(self._connection.execute(_COUNT, asked).scalar_one()) - len(kept)
            if together and size + kept[-1] > BYTES_READ_AT_ONCE:
                yield from self._read_steps(run_id, together)
                together, size = {}, 0
            together[step] = [position for position, _ in sizes[: len(kept)]], left_out
            size += kept[-1]
        yield from self._read_steps(run_id, together)

    def some_bodies(self, run_id: str, attempt: int, step: int, *, limit: int) -> list[bytes]:
        """Return the bodies of any records of a step, at most ``limit``."""
        asked = {"run": run_id, "attempt": attempt, "step": step, "limit": limit}
        return list(self._connection.execute(_SOME_OF_STEP, asked).scalars())

    def _sizes(
        self, run_id: str, attempt: int, steps: Collection[int], bounds: StepBounds, up_to: int
    ) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Yield position and bytes of the first records of each step, one more than the bounds allow."""
        limit = bounds.records + 1
        for some in in_parts(sorted(steps)):
            asked = {"run": run_id, "attempt": attempt, "steps": some, "up_to": up_to, "limit": limit}
            rows = self._connection.execute(_SIZES, asked).all()
            if len(rows) < limit or len(some) == 1:
                for step, of_step in groupby(rows, key=lambda row: row[0]):
                    yield int(step), [(position, length) for _, position, length in of_step]
            else:  # together they have too many: each by itself
                for step in some:
                    yield from self._sizes(run_id, attempt, [step], bounds, up_to)

    def _read_steps(self, run_id: str, wanted: Mapping[int, tuple[list[int], int]]) -> Iterator[tuple[int, StoredStep]]:
        """Yield steps, given the positions of their records and how many are left out."""
        found: dict[int, list[StoredRecord]] = {step: [] for step in wanted}
        for some in in_parts([position for positions, _ in wanted.values() for position in positions]):
            for row in self._connection.execute(_AT, {"run": run_id, "positions": some}):
                found[row.step].append(StoredRecord._make(row))
        for step, (positions, left_out) in wanted.items():
            ordered = sorted(found.pop(step), key=lambda record: (-record.rank, record.seq))
            yield step, StoredStep(records=ordered, left_out=left_out, end=positions[-1])

    def ranks(self, run_id: str, attempt: int, step: int, *, up_to: int) -> set[int]:
        """Return the ranks that have reported a step, up to a position of the log."""
        asked = {"run": run_id, "attempt": attempt, "step": step, "up_to": up_to}
        return set(self._connection.execute(_RANKS, asked).scalars())

    def after(self, run_id: str, position: int, *, limit: int, max_bytes: int) -> tuple[list[StoredRecord], bool]:
        """Return whole batches that follow a position of the log, and whether these are the last.

        There is at least one, if any follows, and then about ``limit`` records of about ``max_bytes`` in all.
        """
        ahead = self._connection.execute(_AHEAD, {"run": run_id, "after": position, "limit": limit + 1}).all()
        if not ahead:
            return [], True
        end, size, is_whole = 0, 0, len(ahead) <= limit
        for place, (batch, length) in enumerate(ahead):
            size += length
            is_last_of_batch = place + 1 < len(ahead) and ahead[place + 1][0] != batch
            if end and size > max_bytes:
                is_whole = False
                break
            if is_last_of_batch:
                end = batch
        else:
            if is_whole:
                end = ahead[-1][0]
        end = end or ahead[0][0]
        rows = self._connection.execute(_UP_TO, {"run": run_id, "after": position, "up_to": end})
        return [StoredRecord._make(row) for row in rows], is_whole
