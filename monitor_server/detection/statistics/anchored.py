"""Departures of signals with a fixed reference: from the newest rows, or from the beginning of the run."""

import math
from collections.abc import Mapping
from typing import Any

from monitor_server.detection.statistics.departure import Departure, Size
from monitor_server.detection.statistics.robust import MAD_TO_SIGMA, median_distance, sorted_median

__all__ = ["AnchoredDeparture"]

FIRST = 8  # the rows that define the beginning of the run
TIMES = 2.5  # healthy drift also adds up since the beginning, so the change must be this much larger
SMALLEST_DEVIATION = 1e-12  # keeps the score of a constant signal finite


class AnchoredDeparture(Departure):
    """A departure from the newest 40 rows, or by 2.5 times the size from the first eight.

    A moving baseline follows slow growth. So the level is also compared with the first rows, if a fixed reference gives
    it the same meaning through the whole run, such as the share of tokens that the first steps did not have. Such a
    departure lasts for as long as the level stays there.

    Args:
        size: The size of a departure.

    Attributes:
        first: The first values.
        is_slow: Whether the signal is away from its first values but not from its newest.

    >>> signal = AnchoredDeparture(Size(factor=2.0, least=0.1, noise=0.01, rows=3))
    >>> [signal.update(0.002 * row) for row in range(150)].index(True)
    130
    """

    def __init__(self, size: Size) -> None:
        super().__init__(size)
        self.first: list[float] = []
        self.is_slow = False
        self._sign = -1.0 if size.is_fall else 1.0
        self._origin: float | None = None
        self._far = math.inf  # the newest value, with its sign, must exceed this before the level is compared

    def update(self, x: float) -> bool:
        """Add one finite value and return whether the signal has departed."""
        if self._origin is None:
            self.first.append(x)
            self._find_origin()
        is_fast = super().update(x)
        self.is_slow = not is_fast and self._sign * x > self._far and self._is_far()
        if self.is_slow:
            self._departed = None  # not because of the level and baseline of the newest rows
        self.departs = is_fast or self.is_slow
        return self.departs

    def _find_origin(self) -> None:
        if len(self.first) < FIRST:
            return
        size, sign = self._size, self._sign
        self._origin = origin = sorted_median(sorted(self.first))
        self._far = sign * origin + TIMES * size.least
        if size.factor != 1.0:
            self._far = max(self._far, sign * size.factor * origin)

    def _is_far(self) -> bool:
        """Return whether the level is far from the first values, and compute the distance."""
        origin, level, size = self._origin, self.level, self._size
        if origin is None or level is None or self._sign * level <= self._far:
            return False
        change = self._sign * (level - origin)
        spread = MAD_TO_SIGMA * median_distance(sorted(self.first), origin)
        self.deviation = spread * (1.0 + 4.0 / FIRST) + size.noise
        self.score = change / max(self.deviation, SMALLEST_DEVIATION)
        return change > size.errors * self.deviation

    @property
    def baseline(self) -> float | None:
        """The reference from which the level has departed."""
        return self._origin if self.is_slow else super().baseline

    def restart(self) -> None:
        """Discard the first values too, because the signal changed its meaning."""
        super().restart()
        self.first, self.is_slow, self._origin, self._far = [], False, None, math.inf

    def take_back(self, rows: int, left: int) -> None:
        """Forget the newest values, and those of the first that are among them."""
        super().take_back(rows, left)
        self.first, self.is_slow, self._origin, self._far = self.first[:left], False, None, math.inf
        self._find_origin()

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; the results from the first values are computed again."""
        super().load(state)
        self._origin, self._far = None, math.inf
        self._find_origin()
