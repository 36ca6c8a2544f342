"""Compaction: writes chunks of older steps, and removes those whose steps have changed."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from sqlalchemy import Connection, delete, func, insert, select, update

from monitor_server.store.encoding.chunks import encode_column, encode_steps, encode_times, summarise
from monitor_server.store.encoding.step_signals import columns
from monitor_server.store.repositories.removed_attempts import removed_attempts
from monitor_server.store.repositories.series.step_rows import read_step_rows
from monitor_server.store.tables import chunk_values, chunks, runs, signals, steps

__all__ = ["CHUNK_STEPS", "Chunk", "Compaction"]

CHUNK_STEPS = 1_000
# The newest steps are not compacted, because late shards correct them, and each correction would remove its chunk. They
# are counted, because a trainer may use any step numbers.
TAIL_STEPS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The stored steps of a range, first_step <= step < end_step.

    Attributes:
        first_step: The first step of the range.
        end_step: The end of the range.
        steps: The encoded step numbers.
        times: The encoded times.
        values: The summary and the encoded values of each signal that was observed, by its position.
    """

    first_step: int
    end_step: int
    steps: bytes
    times: bytes
    values: Mapping[int, tuple[bytes, bytes]]


class Compaction:
    """Writes and removes chunks."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def next_chunk(self, run_id: str, *, newest_step: int) -> Chunk | None:
        """Encode the first steps that are not compacted, except the newest ones.

        The gap of a removed chunk is filled whatever its size; after the last chunk, a whole chunk is needed. Nothing
        is compacted while rows of a removed attempt are stored.
        """
        if self._connection.execute(removed_attempts(run_id).limit(1)).first() is not None:
            return None
        numbers = select(steps.c.step).where(steps.c.run_id == run_id, steps.c.step <= newest_step).distinct()
        limit = self._connection.execute(numbers.order_by(steps.c.step.desc()).offset(TAIL_STEPS).limit(1)).scalar()
        if limit is None:
            return None
        ranges = self._connection.execute(
            select(chunks.c.first_step, chunks.c.end_step)
            .where(chunks.c.run_id == run_id)
            .order_by(chunks.c.first_step)
        ).all()
        ends = [(-1, 0), *((first, end) for first, end in ranges)]
        gaps = [(end, first) for (_, end), (first, _) in pairwise(ends) if first > end]
        for begin, end in gaps:
            chunk = self._encode_range(run_id, begin, end, least=1) if end <= limit else None
            if chunk is not None:
                return chunk
        return self._encode_range(run_id, ends[-1][1], limit, least=CHUNK_STEPS)

    def add(self, run_id: str, chunk: Chunk) -> None:
        """Write a chunk, and replace any rows that a removed one has left."""
        self._remove(run_id, chunk.first_step)
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

    def remove_at(self, run_id: str, written: Iterable[int]) -> None:
        """Remove the chunks whose range contains a step that was written."""
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
        """Remove the chunks that contain a step from ``begin`` on and before ``end``."""
        here = (chunks.c.run_id == run_id) & (chunks.c.first_step < end) & (chunks.c.end_step > begin)
        for first_step in list(self._connection.execute(select(chunks.c.first_step).where(here)).scalars()):
            self._remove(run_id, first_step)

    def remove_from(self, run_id: str, step: int) -> None:
        """Remove the chunks of the steps from ``step`` on.

        The rows of their values begin at `runs.compacted_to` from now on. They are removed later, and are not read
        meanwhile.
        """
        of_run = chunks.c.run_id == run_id
        self._connection.execute(delete(chunks).where(of_run, chunks.c.end_step > step))
        end = self._connection.execute(select(func.max(chunks.c.end_step)).where(of_run)).scalar()
        self._connection.execute(update(runs).where(runs.c.id == run_id), {"compacted_to": end or 0})

    def _encode_range(self, run_id: str, begin: int, end: int, *, least: int) -> Chunk | None:
        """Encode a chunk of the first steps in a range. If it contains all of them, it ends where the range ends."""
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
        parts = list(read_step_rows(self._connection, run_id, begin, last - 1))
        packed = [row for part in parts for row in part.packed]
        return Chunk(
            first_step=begin,
            end_step=last,
            steps=encode_steps(np.concatenate([part.steps for part in parts])),
            times=encode_times(np.concatenate([part.times for part in parts])),
            values={
                position: (summarise(values, observed), encode_column(values, observed))
                for position, (values, observed) in zip(positions, columns(packed, positions), strict=True)
                if observed.any()
            },
        )

    def _remove(self, run_id: str, first_step: int) -> None:
        for table in (chunk_values, chunks):
            self._connection.execute(delete(table).where(table.c.run_id == run_id, table.c.first_step == first_step))
