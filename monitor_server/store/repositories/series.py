"""Whole signals of a run: compacted chunks, and rows of steps where nothing is compacted yet.

The rows of `steps` stay what is true. A chunk repeats those of a range of steps by signal; a step that is written into
its range removes it, and its steps are read from their rows until they are compacted anew.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import zstandard
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from monitor_server.store.encoding.chunks import (
    decode_steps,
    decode_times,
    encode_column,
    encode_steps,
    encode_times,
    read_extremes,
    read_values,
    summarise,
)
from monitor_server.store.encoding.packing import FLOAT, columns
from monitor_server.store.repositories.removed_attempts import is_kept, removed_attempts
from monitor_server.store.tables import chunk_values, chunks, runs, signals, steps

__all__ = ["CHUNK_STEPS", "Chunk", "Column", "Series"]

log = logging.getLogger(__name__)

DAMAGE = (zstandard.ZstdError, ValueError)
CHUNK_STEPS = 1_000
# The newest steps are not compacted: late shards mend them, and each would remove its chunk.
TAIL_STEPS = 256
# Summaries are read where they hold at least as many points as are asked for: two of each 64 rows.
ROWS_PER_POINT = 32

_ROWS = (
    select(steps.c.step, steps.c.time, steps.c.packed)
    .where(
        steps.c.run_id == bindparam("run"),
        steps.c.step >= bindparam("first"),
        steps.c.step <= bindparam("last"),
        is_kept(steps.c.attempt, bindparam("run")),
    )
    .order_by(steps.c.step, steps.c.attempt)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A signal over the steps at which it was observed: steps int64 [n]; values, times (Unix seconds) float64 [n]."""

    signal: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    times: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Steps of a range, first_step <= step < end_step, as they are stored.

    Attributes:
        first_step: Where the range begins.
        end_step: Where it ends.
        steps: The encoded step numbers.
        times: The encoded times.
        values: The summary and the encoded values of each signal that was observed, by its position.
    """

    first_step: int
    end_step: int
    steps: bytes
    times: bytes
    values: Mapping[int, tuple[bytes, bytes]]


class _DamagedChunks(Exception):  # noqa: N818 - what was found, and nobody's error
    """Some chunks cannot be decoded; ``first_steps`` are those at which they begin."""

    def __init__(self, first_steps: set[int]) -> None:
        super().__init__(first_steps)
        self.first_steps = first_steps


@dataclass(frozen=True, slots=True)
class _Compacted:
    """The chunks in a range: their bounds int64 [chunks]; where the rows of each begin; steps and times of all rows."""

    first_steps: list[int]
    end_steps: list[int]
    offsets: NDArray[np.int64]
    steps: NDArray[np.int64]
    times: NDArray[np.float64]


class Series:
    """Reads signals over steps, and compacts them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def read(
        self,
        run_id: str,
        names: Sequence[str],
        *,
        from_step: int | None = None,
        to_step: int | None = None,
        max_points: int | None = None,
    ) -> list[Column]:
        """Return signals without the steps at which they were not observed; unknown ones are empty.

        Args:
            run_id: The run.
            names: Its signals.
            from_step: The first step.
            to_step: The last step.
            max_points: How many points of a signal a chart shows. Where a run has many times more, the extremes and
                NaNs of every 64 steps are returned instead of all values.
        """
        query = select(signals.c.name, signals.c.position).where(signals.c.run_id == run_id, signals.c.name.in_(names))
        positions = {name: position for name, position in self._connection.execute(query)}  # noqa: C416 - not pairs
        low, high = from_step or 0, 2**62 if to_step is None else to_step
        damaged: set[int] = set()
        while True:
            held = self._compacted(run_id, low, high, damaged)
            by_summary = max_points is not None and len(held.steps) > ROWS_PER_POINT * max_points
            try:
                compacted = self._values(run_id, positions, held, by_summary=by_summary)
            except _DamagedChunks as found:
                damaged |= found.first_steps
            else:
                break
        if damaged:
            log.warning("%d chunks of run %s cannot be decoded; their steps are read", len(damaged), run_id)
        parts = self._rows(run_id, positions, _gaps(held, low, high))
        for name, column in compacted.items():
            parts[name].append(column)
        return [_join(name, parts.get(name, []), low, high) for name in names]

    def remove_at(self, run_id: str, written: Iterable[int]) -> None:
        """Remove the chunks whose range holds a step that was written."""
        end = self._connection.execute(select(runs.c.compacted_to).where(runs.c.id == run_id)).scalar()
        inside = sorted(number for number in written if end is not None and number < end)
        if not inside:
            return
        ranges = self._connection.execute(
            select(chunks.c.first_step, chunks.c.end_step)
            .where(chunks.c.run_id == run_id, chunks.c.first_step <= inside[-1], chunks.c.end_step > inside[0])
            .order_by(chunks.c.first_step)
        ).all()
        for first, end_step in ranges:
            place = bisect_left(inside, first)
            if place < len(inside) and inside[place] < end_step:
                self._remove(run_id, first)

    def remove_range(self, run_id: str, begin: int, end: int) -> None:
        """Remove the chunks that hold a step from ``begin`` on and before ``end``."""
        here = (chunks.c.run_id == run_id) & (chunks.c.first_step < end) & (chunks.c.end_step > begin)
        for first_step in list(self._connection.execute(select(chunks.c.first_step).where(here)).scalars()):
            self._remove(run_id, first_step)

    def compact(self, run_id: str, *, newest_step: int) -> bool:
        """Compact the first steps that are not, unless they are among the newest; return whether there were any."""
        chunk = self.next_chunk(run_id, newest_step=newest_step)
        if chunk is not None:
            self.add(run_id, chunk)
        return chunk is not None

    def next_chunk(self, run_id: str, *, newest_step: int) -> Chunk | None:
        """Encode the first steps that are not compacted, unless they are among the newest.

        A gap that a removed chunk has left is filled whatever its size; behind the last chunk a whole chunk is needed.
        Nothing is compacted while rows of a removed attempt are stored.
        """
        if self._connection.execute(removed_attempts(run_id).limit(1)).first() is not None:
            return None
        ranges = self._connection.execute(
            select(chunks.c.first_step, chunks.c.end_step)
            .where(chunks.c.run_id == run_id)
            .order_by(chunks.c.first_step)
        ).all()
        limit = newest_step - TAIL_STEPS
        ends = [(-1, 0), *((first, end) for first, end in ranges)]
        gaps = [(end, first) for (_, end), (first, _) in pairwise(ends) if first > end]
        for begin, end in gaps:
            chunk = self._encode_range(run_id, begin, end, least=1) if end <= limit else None
            if chunk is not None:
                return chunk
        return self._encode_range(run_id, ends[-1][1], limit, least=CHUNK_STEPS)

    def add(self, run_id: str, chunk: Chunk) -> None:
        """Write a chunk."""
        key = {"run_id": run_id, "first_step": chunk.first_step}
        encoded = {"end_step": chunk.end_step, "steps": chunk.steps, "times": chunk.times}
        self._connection.execute(insert(chunks), key | encoded)
        rows = [
            key | {"position": position, "summary": summary, "packed": packed}
            for position, (summary, packed) in chunk.values.items()
        ]
        if rows:
            self._connection.execute(insert(chunk_values), rows)
        here = (runs.c.id == run_id) & (runs.c.compacted_to < chunk.end_step)
        self._connection.execute(update(runs).where(here), {"compacted_to": chunk.end_step})

    def _encode_range(self, run_id: str, begin: int, end: int, *, least: int) -> Chunk | None:
        """Encode a chunk of the first steps in a range, and let it end where the range ends if it has them all."""
        query = (
            select(steps.c.step)
            .where(steps.c.run_id == run_id, steps.c.step >= begin, steps.c.step < end)
            .distinct()
            .order_by(steps.c.step)
            .limit(CHUNK_STEPS)
        )
        numbers = list(self._connection.execute(query).scalars())
        if len(numbers) < least:
            return None
        last = end if least == 1 and len(numbers) < CHUNK_STEPS else numbers[-1] + 1
        query_positions = select(signals.c.position).where(signals.c.run_id == run_id)
        positions = list(self._connection.execute(query_positions).scalars())
        number_array, times, packed = self._read_rows(run_id, [(begin, last - 1)])
        return Chunk(
            first_step=begin,
            end_step=last,
            steps=encode_steps(number_array),
            times=encode_times(times),
            values={
                position: (summarise(values, observed), encode_column(values, observed))
                for position, (values, observed) in zip(positions, columns(packed, positions), strict=True)
                if observed.any()
            },
        )

    def remove_all(self, run_id: str) -> None:
        """Remove the chunks of a run; the rows of their values are removed later, and are not read meanwhile."""
        self._connection.execute(delete(chunks).where(chunks.c.run_id == run_id))
        self._connection.execute(update(runs).where(runs.c.id == run_id), {"compacted_to": 0})

    def _remove(self, run_id: str, first_step: int) -> None:
        for table in (chunk_values, chunks):
            self._connection.execute(delete(table).where(table.c.run_id == run_id, table.c.first_step == first_step))

    def _compacted(self, run_id: str, low: int, high: int, damaged: set[int]) -> _Compacted:
        """Read the chunks in a range but the damaged ones; those whose steps cannot be decoded are added to these."""
        query = (
            select(chunks.c.first_step, chunks.c.end_step, chunks.c.steps, chunks.c.times)
            .where(chunks.c.run_id == run_id, chunks.c.first_step <= high, chunks.c.end_step > low)
            .order_by(chunks.c.first_step)
        )
        rows, numbers, times = [], [], []
        for row in self._connection.execute(query):
            if row.first_step in damaged:
                continue
            try:
                of_chunk = decode_steps(row.steps), decode_times(row.times)
                if len(of_chunk[0]) != len(of_chunk[1]):
                    raise ValueError("a chunk must have a time for each step")
            except DAMAGE:
                damaged.add(row.first_step)
            else:
                rows.append(row)
                numbers.append(of_chunk[0])
                times.append(of_chunk[1])
        return _Compacted(
            first_steps=[row.first_step for row in rows],
            end_steps=[row.end_step for row in rows],
            offsets=np.cumsum([0, *(len(part) for part in numbers)]),
            steps=np.concatenate([*numbers, np.array([], dtype=np.int64)]),
            times=np.concatenate([*times, np.array([], dtype=np.float64)]),
        )

    def _values(
        self, run_id: str, positions: dict[str, int], held: _Compacted, *, by_summary: bool
    ) -> dict[str, Column]:
        """Read the compacted values of signals."""
        if not held.first_steps or not positions:
            return {}
        data = chunk_values.c.summary if by_summary else chunk_values.c.packed
        query = (
            select(chunk_values.c.position, chunk_values.c.first_step, data)
            .where(
                chunk_values.c.run_id == run_id,
                chunk_values.c.position.in_(positions.values()),
                chunk_values.c.first_step.between(held.first_steps[0], held.first_steps[-1]),
            )
            .order_by(chunk_values.c.position, chunk_values.c.first_step)
        )
        offsets = held.offsets.tolist()
        extents = {
            first: (begin, end - begin) for first, (begin, end) in zip(held.first_steps, pairwise(offsets), strict=True)
        }
        encoded: dict[int, list[tuple[int, int, bytes]]] = {}
        for position, first_step, blob in self._connection.execute(query):
            if first_step in extents:
                encoded.setdefault(position, []).append((*extents[first_step], blob))
        found: dict[str, Column] = {}
        read = read_extremes if by_summary else read_values
        for name, position in positions.items():
            if position in encoded:
                try:
                    places, values = read(encoded[position])
                except DAMAGE:
                    starts = {begin: first for first, (begin, _) in extents.items()}
                    raise _DamagedChunks(
                        {starts[each[0]] for each in encoded[position] if _is_damaged(read, each)}
                    ) from None
                found[name] = Column(signal=name, steps=held.steps[places], values=values, times=held.times[places])
        return found

    def _rows(self, run_id: str, positions: dict[str, int], gaps: Sequence[tuple[int, int]]) -> dict[str, list[Column]]:
        """Read from the rows of steps what no chunk holds."""
        numbers, times, packed = self._read_rows(run_id, gaps)
        parts: dict[str, list[Column]] = {}
        for name, (values, observed) in zip(positions, columns(packed, list(positions.values())), strict=True):
            column = Column(signal=name, steps=numbers[observed], values=values[observed], times=times[observed])
            parts[name] = [column]
        return parts

    def _read_rows(
        self, run_id: str, ranges: Sequence[tuple[int, int]]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], list[bytes]]:
        """Return step, time and packed signals of the newest attempt in some ranges, both ends included."""
        rows: list[tuple[int, float, bytes]] = []
        damaged = 0
        for first, last in ranges:  # one query each: SQLite walks over the whole run where ranges are joined by OR
            found = self._connection.execute(_ROWS, {"run": run_id, "first": first, "last": last})
            # The driver's own rows: SQLAlchemy's would double the time of a long series.
            fetched = found.cursor.fetchall() if found.cursor is not None else []
            whole = [row for row in fetched if len(row[2]) % FLOAT.itemsize == 0]
            damaged += len(fetched) - len(whole)
            rows += whole
        if damaged:
            log.warning("%d steps of run %s cannot be decoded and are left out of its series", damaged, run_id)
        numbers = np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
        times = np.fromiter((row[1] for row in rows), dtype=np.float64, count=len(rows))
        newest = np.append(numbers[1:] != numbers[:-1], True)[: len(numbers)]
        packed = [row[2] for row, is_newest in zip(rows, newest.tolist(), strict=True) if is_newest]
        return numbers[newest], times[newest], packed

    def count(self, run_id: str) -> int:
        """Return how many chunks a run has."""
        query = select(func.count()).select_from(chunks).where(chunks.c.run_id == run_id)
        return int(self._connection.execute(query).scalar_one())


def _is_damaged(read: Callable[[Sequence[tuple[int, int, bytes]]], object], encoded: tuple[int, int, bytes]) -> bool:
    """Whether the values of one chunk cannot be decoded."""
    try:
        read([encoded])
    except DAMAGE:
        return True
    return False


def _gaps(held: _Compacted, low: int, high: int) -> list[tuple[int, int]]:
    """Return the ranges of steps, both ends included, that no chunk holds."""
    begin, gaps = low, []
    for first_step, end_step in zip(held.first_steps, held.end_steps, strict=True):
        if first_step > begin:
            gaps.append((begin, first_step - 1))
        begin = max(begin, end_step)
    if begin <= high:
        gaps.append((begin, high))
    return gaps


def _join(name: str, pieces: Sequence[Column], low: int, high: int) -> Column:
    """Join the pieces of a signal in the order of their steps."""
    numbers = np.concatenate([piece.steps for piece in pieces] or [np.array([], dtype=np.int64)])
    values = np.concatenate([piece.values for piece in pieces] or [np.array([], dtype=np.float64)])
    times = np.concatenate([piece.times for piece in pieces] or [np.array([], dtype=np.float64)])
    inside = (numbers >= low) & (numbers <= high)
    order = np.argsort(numbers[inside], kind="stable")
    return Column(signal=name, steps=numbers[inside][order], values=values[inside][order], times=times[inside][order])
