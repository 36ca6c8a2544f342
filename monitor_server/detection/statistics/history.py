"""The last values of one signal, with a lagged baseline, a robust noise scale and a prediction error."""

import math
from collections import deque

from monitor_server.detection.statistics.robust import line, long_run_factor, median, noise_scale
from monitor_server.detection.statistics.state import Stateful

__all__ = ["History"]

EVERY_ROW_UNTIL = 20  # values; from then on the scale is estimated on every 8th row
ROWS_PER_ESTIMATE = 8


class History(Stateful):
    """A window of one signal's values.

    The baseline ends a few rows before now, so that a shift does not hide itself in its own reference. It moves with
    the run, because a baseline frozen at the start raises alarms on healthy learning.

    Args:
        length: Number of values kept.
        lag: Number of newest values that the baseline leaves out.
        least: Number of values that a baseline needs.
        floor: Smallest noise scale, in the signal's unit: a change below it does not matter.
        turn: Which row of eight estimates the scale again, so that not all histories do it on the same row.
        momentum: Whether the signal accumulates, so that its noise is measured by how far a sum of it wanders.
    """

    def __init__(
        self,
        *,
        length: int = 60,
        lag: int = 5,
        least: int = 8,
        floor: float = 1e-9,
        turn: int = 0,
        momentum: bool = True,
    ) -> None:
        self._lag = lag
        self._momentum = momentum
        self._turn = turn
        self._least = least
        self._floor = floor
        self.values: deque[float] = deque(maxlen=length)
        self.seen = 0
        self.scale: float | None = None

    def append(self, x: float) -> None:
        """Add one value and, when it is due, estimate the noise scale."""
        self.values.append(x)
        self.seen += 1
        is_due = self.seen <= EVERY_ROW_UNTIL or self.seen % ROWS_PER_ESTIMATE == self._turn
        if len(self.values) >= self._least and is_due:
            values = list(self.values)
            small_sample = 1.0 + 4.0 / len(values)
            long_run = long_run_factor(values) if self._momentum else 1.0
            self.scale = max(self._floor, noise_scale(values) * long_run * small_sample)

    @property
    def is_just_known(self) -> bool:
        """Whether the newest value is the one that completed the smallest usable baseline."""
        return self.seen == self._least

    def clear(self) -> None:
        """Discard the values and keep the scale: the level changed its meaning, the noise did not."""
        self.values.clear()
        self.seen = 0

    def lagged(self) -> list[float]:
        """Return the values of the baseline's window, oldest first; empty while there are too few."""
        values = list(self.values)[: -self._lag] if self._lag else list(self.values)
        return values if len(values) >= self._least else []

    def baseline(self) -> float | None:
        """Return the median of the lagged window, or None while there are too few values."""
        values = self.lagged()
        return median(values) if values else None

    def innovation(self, x: float, *, trend: bool = True) -> float | None:
        """Return how far ``x``, the next value, lies above its prediction, in standard errors of the prediction.

        The prediction is the lagged median. With ``trend`` it is also the line through the lagged window, extrapolated,
        and the smaller of the two errors is returned. The standard error of a line grows with the distance:
        σ √(1 + 1/n + (t − t̄)² / Σ(tᵢ − t̄)²). A short history can therefore raise an alarm, but only on a large error.
        """
        values = self.lagged()
        if not values or self.scale is None:
            return None
        against_level = (x - median(values)) / self.scale
        if not trend:
            return against_level
        n = len(values)
        mean, slope = line(values)
        ahead = n + self._lag - (n - 1) / 2
        spread = n * (n * n - 1) / 12
        error = self.scale * math.sqrt(1 + 1 / n + ahead * ahead / spread)
        return min(against_level, (x - mean - slope * ahead) / error)
