"""Reads whole signals of a run: the compacted part from chunks, and the rest from the rows of steps."""

import logging
from collections.abc import Callable, Sequence
from itertools import chain, groupby, pairwise
from operator import itemgetter

from sqlalchemy import Connection, bindparam, select

from monitor_server.store.encoding.chunks import DAMAGE, Points, read_extremes, read_means, read_values
from monitor_server.store.encoding.step_signals import columns
from monitor_server.store.repositories.series.chunk_rows import ChunkRows, DamagedChunks
from monitor_server.store.repositories.series.columns import Column, Statistic, join_columns
from monitor_server.store.repositories.series.downsampling import downsample
from monitor_server.store.repositories.series.step_rows import read_step_rows
from monitor_server.store.statements import fetch_tuples
from monitor_server.store.tables import chunk_values, signals

__all__ = ["Series"]

log = logging.getLogger(__name__)

# Summaries are read if they have at least the requested number of points: two for each 64 rows.
ROWS_PER_POINT = 32
FEWEST_POINTS = 10  # of which `downsample` can make a choice

_POSITIONS = select(signals.c.name, signals.c.position).where(
    signals.c.run_id == bindparam("run"), signals.c.name.in_(bindparam("names", expanding=True))
)
_OF_SIGNALS = (
    chunk_values.c.run_id == bindparam("run"),
    chunk_values.c.position.in_(bindparam("positions", expanding=True)),
    chunk_values.c.first_step >= bindparam("first"),
    chunk_values.c.first_step <= bindparam("last"),
)
_ORDER = (chunk_values.c.position, chunk_values.c.first_step)
_VALUES = select(*_ORDER, chunk_values.c.packed).where(*_OF_SIGNALS).order_by(*_ORDER)
_SUMMARIES = select(*_ORDER, chunk_values.c.summary).where(*_OF_SIGNALS).order_by(*_ORDER)


class Series:
    """Reads signals over steps."""

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
        statistic: Statistic = "extremes",
        with_times: bool = False,
    ) -> list[Column]:
        """Return signals without the steps at which they were not observed; unknown ones are empty.

        Args:
            run_id: The run.
            names: Its signals.
            from_step: The first step.
            to_step: The last step.
            max_points: The number of points of a signal that a chart shows. If a run has many times more, the extremes
                and NaNs of every 64 steps, or their mean, are returned instead of all values.
            statistic: Which of the two.
            with_times: Whether to read the time of each step, which costs as much as one more signal.
        """
        asked = {"run": run_id, "names": list(names)}
        positions: dict[str, int] = dict(fetch_tuples(self._connection, _POSITIONS, asked))
        low, high = from_step or 0, 2**62 if to_step is None else to_step
        damaged: set[int] = set()
        while True:
            rows = ChunkRows.read(self._connection, run_id, low, high, damaged)
            try:
                if max_points is None or rows.count <= ROWS_PER_POINT * max_points:
                    compacted = [self._read_compacted(run_id, positions, rows, by_summary=None, with_times=with_times)]
                else:  # a block that is partly outside of the range has no summary of the part inside
                    compacted = [
                        self._read_compacted(run_id, positions, part, by_summary=summary, with_times=with_times)
                        for part, summary in zip(rows.split(low, high), (None, statistic, None), strict=True)
                    ]
            except DamagedChunks as found:
                damaged |= found.first_steps
            else:
                break
        if damaged:
            log.warning("%d chunks of run %s cannot be decoded; their steps are read", len(damaged), run_id)
        parts = self._not_compacted(run_id, positions, rows.gaps(low, high), with_times=with_times)
        return [
            join_columns(
                name,
                [*(part[name] for part in compacted if name in part), *parts.get(name, [])],
                first_step=low,
                last_step=high,
                with_times=with_times,
            )
            for name in names
        ]

    def _read_compacted(
        self,
        run_id: str,
        positions: dict[str, int],
        rows: ChunkRows,
        *,
        by_summary: Statistic | None,
        with_times: bool,
    ) -> dict[str, Column]:
        """Read the compacted values of signals, or what the summaries have; thinned values where these lack it."""
        if not rows.first_steps or not positions:
            return {}
        read: Callable[[Sequence[tuple[int, int, bytes]]], Points | None]
        read = {None: read_values, "extremes": read_extremes, "mean": read_means}[by_summary]
        times = rows.read_times(self._connection, run_id) if with_times else None
        extents = {
            first: (begin, end - begin)
            for first, (begin, end) in zip(rows.first_steps, pairwise(rows.offsets.tolist()), strict=True)
        }
        asked = {
            "run": run_id,
            "positions": list(positions.values()),
            "first": rows.first_steps[0],
            "last": rows.first_steps[-1],
        }
        fetched = fetch_tuples(self._connection, _SUMMARIES if by_summary else _VALUES, asked)
        by_position = {value: name for name, value in positions.items()}
        found: dict[str, Column] = {}
        unread: dict[str, int] = {}
        for position, group in groupby(fetched, key=itemgetter(0)):
            encoded = [(*extents[first], blob) for _, first, blob in group if first in extents]
            if not encoded:
                continue
            try:
                points = read(encoded)
            except DAMAGE:
                starts = {begin: first for first, (begin, _) in extents.items()}
                raise DamagedChunks({starts[each[0]] for each in encoded if _is_damaged(read, each)}) from None
            name = by_position[position]
            if points is None:
                unread[name] = position
                continue
            found[name] = Column(
                signal=name,
                steps=rows.steps_at(points.places),
                values=points.values,
                times=None if times is None else times[points.places],
                counts=points.counts,
            )
        for name, position in unread.items():  # one after the other, because each is held as a whole
            whole = self._read_compacted(run_id, {name: position}, rows, by_summary=None, with_times=with_times)[name]
            most = max(FEWEST_POINTS, rows.count // ROWS_PER_POINT)
            found[name] = downsample(whole, max_points=most, statistic=by_summary or "extremes")
        return found

    def _not_compacted(
        self, run_id: str, positions: dict[str, int], gaps: Sequence[tuple[int, int]], *, with_times: bool
    ) -> dict[str, list[Column]]:
        """Read the values that no chunk contains from the rows of steps."""
        parts: dict[str, list[Column]] = {name: [] for name in positions}
        for rows in chain.from_iterable(read_step_rows(self._connection, run_id, first, last) for first, last in gaps):
            for name, (values, observed) in zip(positions, columns(rows.packed, list(positions.values())), strict=True):
                whole = Column(signal=name, steps=rows.steps, values=values, times=rows.times if with_times else None)
                parts[name].append(whole.select(observed))
        return parts


def _is_damaged(read: Callable[[Sequence[tuple[int, int, bytes]]], object], encoded: tuple[int, int, bytes]) -> bool:
    """Whether the values of one chunk cannot be decoded."""
    try:
        read([encoded])
    except DAMAGE:
        return True
    return False
