"""Largest sizes: the largest |x| of each of several signals so far (its record), and the signals that exceed it now."""

from collections import deque
from collections.abc import Mapping

from monitor_server.detection.protocol import LARGEST
from monitor_server.detection.statistics.state import Stateful, take_newest

__all__ = ["LargestSizes"]

ROWS = 40


class LargestSizes(Stateful):
    """Keeps 40 rows of several signals, and finds those that exceed the largest of their sizes |x| by a factor.

    A row is kept unchanged, because every step adds one, and the sizes are needed only when something happens.

    Args:
        factors: The factor for each signal.
        least: The number of a signal's rows before it has a record.

    >>> records = LargestSizes({"grad/norm": 2.0}, least=4)
    >>> for norm in (1.0, -2.0, 1.5, 0.5):
    ...     records.update({"grad/norm": norm})
    >>> records.find_exceeding({"grad/norm": 3.9}), records.find_exceeding({"grad/norm": 4.1})
    ([], ['grad/norm'])
    """

    def __init__(self, factors: Mapping[str, float], *, least: int) -> None:
        self._factors = factors
        self._least = least
        self.rows: deque[list[float | None]] = deque(maxlen=ROWS)  # values in the order of the factors

    def update(self, signals: Mapping[str, float]) -> None:
        """Add the values of one row."""
        get = signals.get
        self.rows.append([get(name) for name in self._factors])

    def find_exceeding(self, finite: Mapping[str, float]) -> list[str]:
        """Return the signals of a row that exceed their record by their factor; adds nothing."""
        found = []
        newest = self.rows[-1] if self.rows else []
        for (name, factor), before in zip(self._factors.items(), newest, strict=False):
            value = finite.get(name)
            # A size within the factor of the row before cannot exceed the record, which is no smaller.
            if value is None or (before is not None and abs(value) <= factor * abs(before) < LARGEST):
                continue
            if (sizes := self._sizes(name)) and abs(value) > factor * max(sizes):
                found.append(name)
        return found

    def largest(self, name: str) -> float:
        """Return the record of a signal, or 0 if it has none."""
        return max(self._sizes(name), default=0.0)

    def _sizes(self, name: str) -> list[float]:
        """Return the sizes of one signal in the kept rows; none if there are too few."""
        place = list(self._factors).index(name)
        values = [row[place] for row in self.rows]
        sizes = [abs(value) for value in values if value is not None and -LARGEST < value < LARGEST]
        return sizes if len(sizes) >= self._least else []

    def take_back(self, rows: int, left: int) -> None:  # noqa: ARG002 - the rows are counted
        """Forget the newest rows."""
        take_newest(self.rows, rows)

    def restart(self) -> None:
        """Discard the records, because the signals changed their meaning."""
        self.rows.clear()
