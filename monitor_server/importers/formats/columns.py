"""Joins numbers that arrive one metric at a time into rows, by their steps."""

import heapq
import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from monitor_server.importers.protocol import Row

__all__ = ["Columns"]

# A file with more than this was made to fill the memory; the excess is left out.
MAX_METRICS = 20_000
MAX_ATTEMPTS = 10_000
MAX_LAYOUTS = 1024  # the sets of metrics in a row; a trainer has a handful of them
BLOCK_ROWS = 1024
MAX_STEP = 1 << 63  # an array of steps has 64 bits for each

# Steps and values, in the order of the log. The class has no type parameters at run time.
Column = tuple["array[int]", "array[float]"]


class Columns:
    """Collects (metric, step, value) in the order of the log and yields one row for each step; 16 bytes a number.

    If the step of a metric goes back, a new attempt begins, as after a resume from a checkpoint: its rows follow those
    of the attempt before. Metrics may be logged at different steps and in any order within an attempt.
    """

    def __init__(self) -> None:
        self._finished: list[tuple[dict[str, Column], dict[int, float]]] = []
        self._metrics: dict[str, Column] = {}
        self._times: dict[int, float] = {}

    def add(self, metric: str, step: int, value: float, time: float | None = None) -> None:
        """Add one number; ``time`` is in seconds since 1970.

        Raises:
            OverflowError: If the step has more than 64 bits; nothing is added.
        """
        if not -MAX_STEP <= step < MAX_STEP:
            raise OverflowError(f"a step must have at most 64 bits, got one of {step.bit_length()}")
        steps, values = self.column(metric, step)
        steps.append(step)
        values.append(value)
        if time is not None and step not in self._times:
            self._times[step] = time

    def column(self, metric: str, step: int) -> Column:
        """Return the column to which a metric's value at ``step`` belongs."""
        column = self._metrics.get(metric)
        if column is not None and step < column[0][-1] and len(self._finished) < MAX_ATTEMPTS:
            self._finished.append((self._metrics, self._times))
            self._metrics, self._times = {}, {}
            column = None
        if column is None:
            column = (array("q"), array("d"))
            if len(self._metrics) < MAX_METRICS:
                self._metrics[metric] = column
        return column

    def extend(
        self,
        metrics: Sequence[str],
        which: NDArray[np.int64],
        steps: NDArray[np.int64],
        values: NDArray[np.float64],
        times: NDArray[np.float64],
    ) -> None:
        """Add many numbers in the order of the log, as `add` adds one.

        Args:
            metrics: Names.
            which: The place in ``metrics`` of each number, shape ``(numbers,)``; the other arrays have the same shape.
            steps: The step of each number.
            values: The numbers.
            times: Seconds since 1970; NaN if a number has no time.
        """
        order = np.argsort(which, kind="stable")
        grouped, in_order = which[order], steps[order]
        is_same = grouped[1:] == grouped[:-1]
        if not len(order) or (is_same & (in_order[1:] < in_order[:-1])).any():
            self._add_each(metrics, which, steps, values, times)
            return
        starts = np.flatnonzero(np.concatenate([[True], ~is_same]))
        ends = np.append(starts[1:], len(order))
        columns = [self._metrics.get(metrics[place]) for place in grouped[starts].tolist()]
        if any(c and first < c[0][-1] for c, first in zip(columns, in_order[starts].tolist(), strict=True)):
            self._add_each(metrics, which, steps, values, times)
            return
        in_values = values[order]
        in_file = np.argsort(order[starts])  # the metrics are in the order in which each was first logged
        for begin, end in zip(starts[in_file].tolist(), ends[in_file].tolist(), strict=True):
            own_steps, own_values = self.column(metrics[grouped[begin]], int(in_order[begin]))
            own_steps.frombytes(in_order[begin:end].tobytes())
            own_values.frombytes(in_values[begin:end].tobytes())
        self._add_times(steps, times)

    def extend_cycles(
        self,
        metrics: Sequence[str],
        which: Sequence[int],
        steps: NDArray[np.int64],
        values: NDArray[np.float32],
        times: NDArray[np.float64],
    ) -> None:
        """Add the numbers of cycles with the same metrics in the same order, as `add` adds one.

        Args:
            metrics: Names.
            which: The place in ``metrics`` of each number of a cycle.
            steps: The steps, in the order of the log, shape ``(cycles, numbers)``; the other arrays have the same
                shape.
            values: The numbers.
            times: Seconds since 1970; NaN if a number has no time.
        """
        columns = [self._metrics.get(metrics[place]) for place in which]
        are_new = any(c is None or first < c[0][-1] for c, first in zip(columns, steps[0].tolist(), strict=True))
        if are_new or len(set(which)) < len(which) or (steps[1:] < steps[:-1]).any():
            numbers = values.astype(np.float64).ravel()
            self.extend(metrics, np.tile(np.array(which), len(steps)), steps.ravel(), numbers, times.ravel())
            return
        for place, column in enumerate(columns):
            if column is not None:
                column[0].frombytes(steps[:, place].tobytes())
                column[1].frombytes(values[:, place].astype(np.float64).tobytes())
        self._add_times(steps.ravel(), times.ravel())

    def _add_times(self, steps: NDArray[np.int64], times: NDArray[np.float64]) -> None:
        """Keep the first time of each step."""
        has_time = ~np.isnan(times)
        steps, times = steps[has_time], times[has_time]
        begins = np.flatnonzero(np.diff(steps, prepend=steps[:1] - 1))
        for step, time in zip(steps[begins].tolist(), times[begins].tolist(), strict=True):
            self._times.setdefault(step, time)

    def _add_each(
        self,
        metrics: Sequence[str],
        which: NDArray[np.int64],
        steps: NDArray[np.int64],
        values: NDArray[np.float64],
        times: NDArray[np.float64],
    ) -> None:
        """Add numbers with a step that goes back; the order among metrics then decides where an attempt begins."""
        for place, step, value, time in zip(
            which.tolist(), steps.tolist(), values.tolist(), times.tolist(), strict=True
        ):
            self.add(metrics[place], step, value, None if math.isnan(time) else time)

    def rows(self) -> Iterator[Row]:
        """Yield one row for each step and attempt, in order; of two values at one step, the first is used."""
        for metrics, times in [*self._finished, (self._metrics, self._times)]:
            groups = _by_steps(metrics)
            if len(groups) == 1:
                yield from _rows_of_one(groups[0], times)
                continue
            every = heapq.merge(*(_numbers_of_steps(place, *group) for place, group in enumerate(groups)))
            layouts: dict[tuple[int, ...], tuple[list[str], Callable[[tuple[float, ...]], tuple[float, ...]]]] = {}
            for step, found in groupby(every, key=itemgetter(0)):
                row: dict[str, object] = {"step": step}
                if step in times:
                    row["_timestamp"] = times[step]
                present = list(found)
                which = tuple(place for _, place, _ in present)
                if which not in layouts:
                    if len(layouts) >= MAX_LAYOUTS:
                        layouts.clear()
                    names, order = _layout([groups[place][1] for place in which])
                    layouts[which] = names, itemgetter(*order) if len(order) > 1 else tuple
                names, pick = layouts[which]
                row.update(zip(names, pick(tuple(chain(*(each for *_, each in present)))), strict=True))
                yield row


# The steps of some metrics; and for each metric its place among all, its name, and its values.
Group = tuple["NDArray[np.int64]", list[tuple[int, str, "NDArray[np.float64]"]]]


def _by_steps(metrics: Mapping[str, Column]) -> list[Group]:
    """Join the metrics that were logged at the same steps; for most trainers, these are most metrics."""
    groups: dict[bytes, Group] = {}
    for place, (metric, (logged, numbers)) in enumerate(metrics.items()):
        steps, values = np.frombuffer(logged, np.int64), np.frombuffer(numbers, np.float64)
        is_first = np.concatenate([[True], steps[1:] != steps[:-1]])
        if not is_first.all():
            steps, values = steps[is_first], values[is_first]
        groups.setdefault(steps.tobytes(), (steps, []))[1].append((place, metric, values))
    return list(groups.values())


def _rows_of_one(group: Group, times: Mapping[int, float]) -> Iterator[Row]:
    """Yield the rows of metrics that were all logged at the same steps."""
    steps, columns = group
    names, order = _layout([columns])
    with_time = ("step", "_timestamp", *names)
    without = ("step", *names)
    for step, _, numbers in _numbers_of_steps(0, steps, [columns[place] for place in order]):
        time = times.get(step)
        yield dict(
            zip(without, (step, *numbers), strict=True)
            if time is None
            else zip(with_time, (step, time, *numbers), strict=True)
        )


def _numbers_of_steps(
    place: int, steps: NDArray[np.int64], columns: list[tuple[int, str, NDArray[np.float64]]]
) -> Iterator[tuple[int, int, tuple[float, ...]]]:
    """Yield step, place of the group and values of each step, in blocks, so that few numbers are objects."""
    for begin in range(0, len(steps), BLOCK_ROWS):
        block = slice(begin, begin + BLOCK_ROWS)
        values = zip(*(column[block].tolist() for _, _, column in columns), strict=True)
        for step, found in zip(steps[block].tolist(), values, strict=True):
            yield step, place, found


def _layout(groups: Sequence[list[tuple[int, str, NDArray[np.float64]]]]) -> tuple[list[str], list[int]]:
    """Return the names of some groups' metrics in the order in which they were first logged, and their places."""
    logged = [(place, name) for group in groups for place, name, _ in group]
    order = sorted(range(len(logged)), key=lambda position: logged[position][0])
    return [logged[position][1] for position in order], order
