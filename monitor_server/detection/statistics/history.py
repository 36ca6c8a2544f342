"""The last values of one signal, with a lagged baseline, a robust noise scale and a prediction error."""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping
from typing import Any

from monitor_server.detection.statistics.robust import line, long_run_factor, noise_scale, sorted_median
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
        estimates_noise: Whether the noise scale is estimated at all, because only the baseline may be needed.
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
        estimates_noise: bool = True,
    ) -> None:
        self._lag = lag
        self._length = length
        self._estimates_noise = estimates_noise
        self._ordered: list[float] | None = None  # the lagged window in ascending order, from its first use on
        self._momentum = momentum
        self._turn = turn
        self._least = least
        self._floor = floor
        self.values: deque[float] = deque(maxlen=length)
        self.seen = 0
        self.scale: float | None = None

    def append(self, x: float) -> None:
        """Add one value and, when it is due, estimate the noise scale."""
        if self._ordered is not None:
            self._move_order_on(self._ordered, x)
        self.values.append(x)
        self.seen += 1
        is_due = self.seen <= EVERY_ROW_UNTIL or self.seen % ROWS_PER_ESTIMATE == self._turn
        if is_due and self._estimates_noise and len(self.values) >= self._least:
            values = list(self.values)
            small_sample = 1.0 + 4.0 / len(values)
            long_run = long_run_factor(values) if self._momentum else 1.0
            self.scale = max(self._floor, noise_scale(values) * long_run * small_sample)

    def _move_order_on(self, ordered: list[float], x: float) -> None:
        values, lag = self.values, self._lag
        if len(values) == self._length:
            del ordered[bisect_left(ordered, values[0])]
        if not lag:
            insort(ordered, x + 0.0)
        elif len(values) >= lag:
            insort(ordered, values[-lag] + 0.0)

    @property
    def is_just_known(self) -> bool:
        """Whether the newest value is the one that completed the smallest usable baseline."""
        return self.seen == self._least

    def clear(self) -> None:
        """Discard the values and keep the scale: the level changed its meaning, the noise did not."""
        self.values.clear()
        self._ordered = None
        self.seen = 0

    def lagged(self) -> list[float]:
        """Return the values of the baseline's window, oldest first; empty while there are too few."""
        values = list(self.values)[: -self._lag] if self._lag else list(self.values)
        return values if len(values) >= self._least else []

    def baseline(self) -> float | None:
        """Return the median of the lagged window, or None while there are too few values."""
        if len(self.values) - self._lag < self._least:
            return None
        if self._ordered is None:
            # -0.0 becomes 0.0: the two sort alike and would make the order depend on when it is built.
            self._ordered = sorted([value + 0.0 for value in self.lagged()])
        return sorted_median(self._ordered)

    def innovation(self, x: float, *, trend: bool = True, enough: float = -math.inf) -> float | None:
        """Return how far ``x``, the next value, lies above its prediction, in standard errors of the prediction.

        The prediction is the lagged median. With ``trend`` it is also the line through the lagged window, extrapolated,
        and the smaller of the two errors is returned. The standard error of a line grows with the distance:
        σ √(1 + 1/n + (t − t̄)² / Σ(tᵢ − t̄)²). A short history can therefore raise an alarm, but only on a large error.
        The line is not computed where the median alone gives less than ``enough``, below which the caller needs no
        smaller number.
        """
        baseline = self.baseline()
        if baseline is None or self.scale is None:
            return None
        against_level = (x - baseline) / self.scale
        if not trend or against_level < enough:
            return against_level
        values = self.lagged()
        n = len(values)
        mean, slope = line(values)
        ahead = n + self._lag - (n - 1) / 2
        spread = n * (n * n - 1) / 12
        error = self.scale * math.sqrt(1 + 1 / n + ahead * ahead / spread)
        return min(against_level, (x - mean - slope * ahead) / error)

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; the order is built again from the values."""
        super().load(state)
        self._ordered = None
