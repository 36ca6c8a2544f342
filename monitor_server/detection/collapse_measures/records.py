"""Records: the largest size that each of several signals has had in a run, and which of them it passes now."""

from collections import deque
from collections.abc import Mapping

from monitor_server.detection.base_classes.readings import LARGEST, finite
from monitor_server.detection.statistics.state import Stateful

__all__ = ["Records"]

ROWS = 40


class Records(Stateful):
    """Keeps the last 40 sizes |x| of several signals, and finds those that pass the largest of them by a factor.

    Args:
        factors: For each signal the factor.
        least: Rows of a signal before it has a record.

    >>> records = Records({"grad/norm": 2.0}, least=4)
    >>> for norm in (1.0, -2.0, 1.5, 0.5):
    ...     records.update({"grad/norm": norm})
    >>> records.passed({"grad/norm": 3.9}), records.passed({"grad/norm": 4.1})
    ([], ['grad/norm'])
    """

    def __init__(self, factors: Mapping[str, float], *, least: int) -> None:
        self._factors = factors
        self._least = least
        self.sizes = {name: _Sizes() for name in factors}

    def update(self, signals: Mapping[str, float]) -> None:
        """Add the values of one row."""
        for name, sizes in self.sizes.items():
            value = signals.get(name)
            if value is not None and -LARGEST < value < LARGEST:
                sizes.newest.append(abs(value))

    def passed(self, signals: Mapping[str, float]) -> list[str]:
        """Return the signals of a row that pass their record by their factor; adds nothing."""
        found = []
        for name, factor in self._factors.items():
            value = finite(signals, name)
            if value is not None and self.rows(name) >= self._least and abs(value) > factor * self.largest(name):
                found.append(name)
        return found

    def largest(self, name: str) -> float:
        """Return the record of a signal, 0 while it has none."""
        return max(self.sizes[name].newest, default=0.0)

    def rows(self, name: str) -> int:
        """Return of how many rows the record of a signal is."""
        return len(self.sizes[name].newest)

    def restart(self) -> None:
        """Discard the records, because the signals changed their meaning."""
        for sizes in self.sizes.values():
            sizes.newest.clear()


class _Sizes(Stateful):
    """The last sizes of one signal."""

    def __init__(self) -> None:
        self.newest: deque[float] = deque(maxlen=ROWS)
