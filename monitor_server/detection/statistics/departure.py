"""Departures: one signal leaves its own recent baseline by a size that matters and beyond its noise.

This is the building block of the detectors that need only a trainer's own metrics. A detector states what size
matters. Four rows of baseline are enough, because half of the failures in real logs come before row 20.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat
from operator import sub
from typing import Any

from monitor_server.detection.statistics.rarity import rarity
from monitor_server.detection.statistics.robust import MAD_TO_SIGMA, sorted_median
from monitor_server.detection.statistics.state import Stateful

__all__ = ["Departure", "Size", "second_largest"]

WINDOW = 40  # rows of baseline
LEAST = 4  # rows of baseline that a departure needs
SMALLEST_DEVIATION = 1e-12  # keeps the score of a constant signal finite


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What counts as a departure; all conditions must hold.

    Args:
        factor: The level must pass ``factor`` times the baseline, both counted from the signal's floor: above 1 for
            a rise, below 1 for a fall, 1 where only the other conditions count.
        least: Smallest change that matters, in the signal's unit.
        errors: Smallest change in robust deviations of the baseline.
        rows: Number of newest rows whose median is the level. From 3 on a single row can never count as a departure;
            with 2, the mean of the two, a very large one can.
        noise: Smallest deviation assumed, in the signal's unit.
        each: Whether every one of the newest rows must pass the factor, and not their median alone.
        rarity: Largest `rarity` of the newest rows, so that what the run has done before is not a departure. 1 asks
            for nothing.
    """

    factor: float = 1.0
    least: float = 0.0
    errors: float = 4.0
    rows: int = 2
    noise: float = 0.0
    each: bool = False
    rarity: float = 1e-3

    @property
    def is_fall(self) -> bool:
        """Whether the departure is downwards."""
        return self.factor < 1.0


class Departure(Stateful):
    """Compares the median of the newest rows with the median of a lagged window.

    The signal departs if s (y − b) > least, s (y − b) > errors · σ (1 + 4 / n), y lies beyond factor · b, and the
    newest rows are rare. Here y is the level, b and σ are the median and 1.4826 · MAD of up to 40 rows that end one row
    before the level's, and s = ±1.

    Args:
        size: What counts as a departure.

    Attributes:
        level: Median of the newest rows.
        baseline: Median of the window before.
        deviation: Noise of the baseline when the change was last large enough to be compared with it.
        score: The change in those deviations, then.

    >>> signal = Departure(Size(factor=2.0, rows=2))
    >>> [signal.update(x) for x in (1.0, 1.1, 0.9, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0)][-4:]
    [False, False, False, True]
    """

    def __init__(self, size: Size) -> None:
        self._size = size
        self._rows = size.rows
        self._length = WINDOW + size.rows + 1
        self._falls = size.is_fall
        self._least = size.least
        self._factor = size.factor
        self.values: deque[float] = deque(maxlen=self._length)
        self._before: list[float] = []
        self.floor = 0.0
        self.level: float | None = None
        self.baseline: float | None = None
        self.deviation = 0.0
        self.score = 0.0
        self.departs = False

    def update(self, x: float) -> bool:
        """Add one finite value and return whether the signal has departed.

        A step updates tens of departures, and nearly all end at the first comparison below. This is why the window is
        moved on and its medians are taken here without a call, and why the baseline is kept sorted.
        """
        x += 0.0  # -0.0 becomes 0.0: the two sort alike and would make the order depend on history
        if x < self.floor:  # noqa: PLR1730 - cheaper than a call
            self.floor = x
        values, before, rows = self.values, self._before, self._rows
        held = len(values)
        if held == self._length:
            del before[bisect_left(before, values[0])]
        values.append(x)
        if held > rows:
            insort(before, values[-rows - 2])
        self.departs = False
        count = len(before)
        if count < LEAST:
            return False
        half = count // 2
        self.baseline = baseline = before[half] if count % 2 else (before[half - 1] + before[half]) / 2
        if rows == 2:  # noqa: PLR2004 - the two usual numbers of rows need no call either
            level = (x + values[-2]) / 2
        elif rows == 3:  # noqa: PLR2004
            level = sorted((x, values[-2], values[-3]))[1]
        else:
            level = self._level()
        self.level = level
        factor = self._factor
        if self._falls:
            floor = self.floor
            if baseline - level <= self._least or level - floor >= factor * (baseline - floor):
                return False
        # Rises count from zero: a signal that can be negative has no natural multiple.
        elif level - baseline <= self._least or (factor != 1.0 and level <= factor * baseline):
            return False
        self.departs = self._is_large() and self._is_beyond_noise() and self._is_rare()
        return self.departs

    def _level(self) -> float:
        values = self.values
        return sorted_median(sorted([values[-row] for row in range(1, self._rows + 1)]))

    def restart(self) -> None:
        """Discard the baseline, because the signal changed its meaning."""
        self.values.clear()
        self._before.clear()
        self.floor, self.level, self.baseline, self.departs = 0.0, None, None, False

    @property
    def change(self) -> float:
        """The level's difference from the baseline, 0 before there is one."""
        return (self.level or 0.0) - (self.baseline or 0.0)

    def _change(self) -> float:
        return -self.change if self._size.is_fall else self.change

    @property
    def strength(self) -> float:
        """The newest score over the number of deviations required."""
        return self.score / self._size.errors

    def _is_large(self) -> bool:
        """Return whether the newest rows are large too, where each of them must be."""
        return not self._size.each or all(self._is_beyond(self.values[-row]) for row in range(1, self._size.rows + 1))

    def _is_beyond(self, level: float) -> bool:
        size, baseline = self._size, self.baseline or 0.0
        if size.is_fall:
            return level - self.floor < size.factor * (baseline - self.floor)
        return size.factor == 1.0 or level > size.factor * baseline

    def _is_beyond_noise(self) -> bool:
        baseline = self.baseline or 0.0
        before, change = self._before, self._change()
        spread = MAD_TO_SIGMA * sorted_median(sorted(map(abs, map(sub, before, repeat(baseline)))))
        self.deviation = spread * (1.0 + 4.0 / len(before)) + self._size.noise
        self.score = change / max(self.deviation, SMALLEST_DEVIATION)
        return change > self._size.errors * self.deviation

    def _is_rare(self) -> bool:
        falls = self.change < 0.0
        return self._size.rarity >= 1.0 or rarity(self.values, falls=falls) < self._size.rarity

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; the sorted baseline is built again from the values."""
        super().load(state)
        self._before = sorted(list(self.values)[: -(self._size.rows + 1)])


def second_largest(strengths: Iterable[float]) -> float:
    """Return the second largest of at least two strengths: the strength of a rule that needs two to agree.

    >>> second_largest([1.2, 7.0, 3.0])
    3.0
    """
    return sorted(strengths)[-2]
