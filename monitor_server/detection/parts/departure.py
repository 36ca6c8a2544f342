"""Departures: one signal leaving its own recent baseline, by a size that matters and beyond its noise.

The building block of the detectors that need nothing but a trainer's own metrics. Knows no signal; a detector says what
size matters. Needs 4 rows of baseline, not a warm-up: half of the failures in real logs come before row 20.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from monitor_server.detection.parts.stateful import Stateful
from monitor_server.detection.parts.statistics import MAD_TO_SIGMA, median

__all__ = ["Departure", "Size", "second_largest"]

WINDOW = 40  # rows of baseline
LEAST = 4  # rows of baseline before anything is said


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What counts as a departure; all conditions must hold.

    Args:
        factor: The level must pass ``factor`` times the baseline, both counted from the signal's floor: above 1 for
            a rise, below 1 for a fall, 1 where only the other conditions count.
        least: Smallest change that matters, in the signal's unit.
        errors: Smallest change in robust deviations of the baseline.
        rows: Newest rows whose median is the level. From 3 on a single row can never fire; with 2, the mean of the
            two, a very large one can.
        noise: Smallest deviation assumed, in the signal's unit.
        each: Whether every one of the newest rows must pass the factor, not their median alone.
    """

    factor: float = 1.0
    least: float = 0.0
    errors: float = 4.0
    rows: int = 2
    noise: float = 0.0
    each: bool = False

    @property
    def is_fall(self) -> bool:
        """Whether the departure looked for is downwards."""
        return self.factor < 1.0


class Departure(Stateful):
    """Compares the median of the newest rows with the median of a lagged window.

    departs ⇔ s (y − b) > least, s (y − b) > errors · σ (1 + 4 / n), and y beyond factor · b, with y the level, b and σ
    the median and 1.4826 · MAD of up to 40 rows that end one row before the level's, s = ±1.

    Args:
        size: What counts.

    Attributes:
        level: Median of the newest rows.
        baseline: Median of the window before.
        deviation: Noise of the baseline when the change was last large enough to ask for it.
        score: The change in those deviations, then.
    """

    def __init__(self, size: Size) -> None:
        self._size = size
        self.values: deque[float] = deque(maxlen=WINDOW + size.rows + 1)
        self._before: list[float] = []
        self.floor = 0.0
        self.level: float | None = None
        self.baseline: float | None = None
        self.deviation = 0.0
        self.score = 0.0
        self.departs = False

    def update(self, x: float) -> bool:
        """Take one finite value and tell whether the signal has departed."""
        self._append(x + 0.0)  # -0.0 becomes 0.0: the two sort alike and would make the order a matter of history
        self.departs = False
        if len(self._before) >= LEAST:
            self.level, self.baseline = self._level(), _middle(self._before)
            self.departs = self._is_large() and self._is_beyond_noise()
        return self.departs

    def _append(self, x: float) -> None:
        """Move the window on by one row, keeping the baseline's values sorted: sorting anew would double a step."""
        self.floor = min(self.floor, x)
        if len(self.values) == self.values.maxlen:
            del self._before[bisect_left(self._before, self.values[0])]
        self.values.append(x)
        newest = self._size.rows + 2
        if len(self.values) >= newest:
            insort(self._before, self.values[-newest])

    def _level(self) -> float:
        newest = [self.values[-row] for row in range(1, self._size.rows + 1)]
        newest.sort()
        return _middle(newest)

    def restart(self) -> None:
        """Forget the baseline: the signal changed its meaning."""
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
        """The newest score over the deviations that were asked for."""
        return self.score / self._size.errors

    def _is_large(self) -> bool:
        if self._change() <= self._size.least or not self._is_beyond(self.level or 0.0):
            return False
        return not self._size.each or all(self._is_beyond(self.values[-row]) for row in range(1, self._size.rows + 1))

    def _is_beyond(self, level: float) -> bool:
        size, baseline = self._size, self.baseline or 0.0
        if size.is_fall:
            return level - self.floor < size.factor * (baseline - self.floor)
        # Rises count from zero: a signal that can be negative has no natural multiple.
        return size.factor == 1.0 or level > size.factor * baseline

    def _is_beyond_noise(self) -> bool:
        spread = MAD_TO_SIGMA * median([abs(value - (self.baseline or 0.0)) for value in self._before])
        self.deviation = spread * (1.0 + 4.0 / len(self._before)) + self._size.noise
        self.score = self._change() / max(self.deviation, 1e-12)
        return self._change() > self._size.errors * self.deviation

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over a saved state."""
        super().load(state)
        self._before = sorted(list(self.values)[: -(self._size.rows + 1)])


def second_largest(strengths: Iterable[float]) -> float:
    """Give the second largest of at least two strengths, which is that of a rule that needs two to agree."""
    return sorted(strengths)[-2]


def _middle(ordered: list[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
