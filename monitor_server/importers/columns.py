"""Numbers that arrive a metric at a time, put together to rows by their steps."""

from array import array
from collections.abc import Iterator

import numpy as np

from monitor_server.importers.protocol import Row

__all__ = ["Columns"]

# A file that holds more than these was made to fill the memory; what is beyond them is left out.
MAX_METRICS = 20_000
MAX_ATTEMPTS = 10_000

# Steps and values, in the order logged. The class has no type parameters at run time.
Column = tuple["array[int]", "array[float]"]


class Columns:
    """Collects (metric, step, value) in the order logged and yields a row a step; 16 bytes a number.

    A metric whose own step goes back begins a new attempt, as after a resume from a checkpoint: its rows follow those
    of the attempt before. Metrics may be logged at different steps and in any order within an attempt.
    """

    def __init__(self) -> None:
        self._finished: list[tuple[dict[str, Column], dict[int, float]]] = []
        self._metrics: dict[str, Column] = {}
        self._times: dict[int, float] = {}

    def add(self, metric: str, step: int, value: float, time: float | None = None) -> None:
        """Take one number; ``time`` is in seconds since 1970."""
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

    def rows(self) -> Iterator[Row]:
        """Yield a row a step and attempt, in order; of two values at one step the first stands."""
        for metrics, times in [*self._finished, (self._metrics, self._times)]:
            places = dict.fromkeys(metrics, 0)
            if not metrics:
                continue
            every = np.unique(np.concatenate([np.frombuffer(steps, np.int64) for steps, _ in metrics.values()]))
            for step in map(int, every):
                row: dict[str, object] = {"step": step}
                if step in times:
                    row["_timestamp"] = times[step]
                for metric, (steps, values) in metrics.items():
                    place = places[metric]
                    if place < len(steps) and steps[place] == step:
                        row[metric] = values[place]
                        while place < len(steps) and steps[place] == step:
                            place += 1
                        places[metric] = place
                yield row
