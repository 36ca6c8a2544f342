"""The rows of a run's chunks, with consecutive numbers: the step of each row, and the first row of each chunk.

A chart of a long run reads the summaries of blocks, which name a few rows of each chunk. If the steps are regular,
these rows' steps follow from the chunk's first step and stride, so that the other rows are not decoded.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, select

from monitor_server.store.encoding.chunks import DAMAGE, decode_steps, decode_times
from monitor_server.store.statements import fetch_tuples
from monitor_server.store.tables import chunks

__all__ = ["ChunkRows", "DamagedChunks"]

_IN_RANGE = (chunks.c.run_id == bindparam("run"), chunks.c.first_step <= bindparam("high"))
_STEPS = (
    select(chunks.c.first_step, chunks.c.end_step, chunks.c.steps)
    .where(*_IN_RANGE, chunks.c.end_step > bindparam("low"))
    .order_by(chunks.c.first_step)
)
_TIMES = (
    select(chunks.c.first_step, chunks.c.times)
    .where(*_IN_RANGE, chunks.c.first_step >= bindparam("low"))
    .order_by(chunks.c.first_step)
)


class DamagedChunks(Exception):  # noqa: N818 - a state that is handled, and not an error
    """Some chunks cannot be decoded; ``first_steps`` are their first steps."""

    def __init__(self, first_steps: set[int]) -> None:
        super().__init__(first_steps)
        self.first_steps = first_steps


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """The chunks in a range of steps.

    Attributes:
        first_steps: The first step of the range of each chunk, ascending.
        end_steps: The end of each range.
        numbers: The steps of each chunk's rows: a range if they are regular, otherwise int64 [rows].
        offsets: The place of the first row of each chunk among the rows of all, and the number of all, int64
            [chunks + 1].
    """

    first_steps: list[int]
    end_steps: list[int]
    numbers: list[range | NDArray[np.int64]]
    offsets: NDArray[np.int64]

    @classmethod
    def read(cls, connection: Connection, run_id: str, low: int, high: int, damaged: set[int]) -> "ChunkRows":
        """Read the chunks that contain a step from ``low`` to ``high``, without the damaged ones.

        Chunks whose steps cannot be decoded are added to ``damaged``.
        """
        first_steps: list[int] = []
        end_steps: list[int] = []
        numbers: list[range | NDArray[np.int64]] = []
        asked = {"run": run_id, "low": low, "high": high}
        for first_step, end_step, encoded in fetch_tuples(connection, _STEPS, asked):
            if first_step in damaged:
                continue
            try:
                of_chunk = decode_steps(encoded)
                if not (len(of_chunk) and first_step <= of_chunk[0] <= of_chunk[-1] < end_step):
                    raise ValueError("a chunk must have steps, all of which lie in its range")
            except DAMAGE:
                damaged.add(first_step)
                continue
            first_steps.append(first_step)
            end_steps.append(end_step)
            numbers.append(of_chunk)
        return cls(first_steps, end_steps, numbers, np.cumsum([0, *map(len, numbers)], dtype=np.int64))

    @property
    def count(self) -> int:
        """The number of rows of all chunks."""
        return int(self.offsets[-1])

    def split(self, low: int, high: int) -> "tuple[ChunkRows, ChunkRows, ChunkRows]":
        """Return the first chunk if it has steps before ``low``, the last if it has steps after ``high``, and the rest.

        The rest, which lies between the two, is the second of the three.
        """
        count = len(self.numbers)
        begin = int(count > 0 and self.numbers[0][0] < low)
        end = max(begin, count - int(count > 0 and self.numbers[-1][-1] > high))
        return self._part(0, begin), self._part(begin, end), self._part(end, count)

    def _part(self, begin: int, end: int) -> "ChunkRows":
        here = slice(begin, end)
        offsets = self.offsets[begin : end + 1] - self.offsets[begin]
        return ChunkRows(self.first_steps[here], self.end_steps[here], self.numbers[here], offsets)

    def gaps(self, low: int, high: int) -> list[tuple[int, int]]:
        """Return the ranges of steps from ``low`` to ``high``, both ends included, that no chunk contains."""
        begin, gaps = low, []
        for first_step, end_step in zip(self.first_steps, self.end_steps, strict=True):
            if first_step > begin:
                gaps.append((begin, first_step - 1))
            begin = max(begin, end_step)
        if begin <= high:
            gaps.append((begin, high))
        return gaps

    def steps_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the steps of some rows, given by their ascending places."""
        ends = np.searchsorted(places, self.offsets)
        counts = np.diff(ends)
        starts = np.array([part[0] for part in self.numbers], dtype=np.int64)
        strides = np.array([part.step if isinstance(part, range) else 0 for part in self.numbers], dtype=np.int64)
        found: NDArray[np.int64]
        found = np.repeat(starts - strides * self.offsets[:-1], counts) + np.repeat(strides, counts) * places
        for number, part in enumerate(self.numbers):
            if not isinstance(part, range):
                here = slice(ends[number], ends[number + 1])
                found[here] = part[places[here] - self.offsets[number]]
        return found

    def read_times(self, connection: Connection, run_id: str) -> NDArray[np.float64]:
        """Read the time at which each row was recorded, Unix seconds, float64 [rows].

        Raises:
            DamagedChunks: If a chunk does not have a time for each of its steps.
        """
        if not self.first_steps:
            return np.array([], dtype=np.float64)
        asked = {"run": run_id, "low": self.first_steps[0], "high": self.first_steps[-1]}
        encoded = dict(fetch_tuples(connection, _TIMES, asked))
        parts: list[NDArray[np.float64]] = []
        damaged: set[int] = set()
        for first_step, (begin, end) in zip(self.first_steps, pairwise(self.offsets.tolist()), strict=True):
            try:
                part = decode_times(encoded[first_step])
                if len(part) != end - begin:
                    raise ValueError("a chunk must have a time for each step")
            except DAMAGE:
                damaged.add(first_step)
            else:
                parts.append(part)
        if damaged:
            raise DamagedChunks(damaged)
        return np.concatenate(parts)
