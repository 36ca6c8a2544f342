"""The last values of one signal, with a lagged baseline, a robust noise scale and a prediction error."""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping
from typing import Any

from monitor_server.detection.statistics.robust import line, long_run_factor, noise_scale, sorted_median
from monitor_server.detection.statistics.state import Stateful, take_newest

__all__ = ["History"]

EVERY_ROW_UNTIL = 20  # values; after this number the scale is estimated on every 8th row
ROWS_PER_ESTIMATE = 8
ROUNDING = 1e-9  # relative; far more than the rounding error of a product


class History(Stateful):
    """A window of one signal's values.

    The baseline ends a few rows before now, so that a shift does not enter its own reference. It moves with the run,
    because a baseline that is fixed at the start raises alarms on healthy learning.

    Args:
        length: Number of values kept.
        lag: Number of newest values that the baseline leaves out.
        least: Number of values that a baseline needs.
        floor: Smallest noise scale, in the signal's unit: a change below it does not matter.
        turn: The row of each eight at which the scale is estimated, so that not all histories do it on the same row.
        momentum: Whether the signal accumulates, so that its noise is measured by the deviation of a sum of it.
        estimates_noise: Whether the noise scale is estimated at all; some users need only the baseline.
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
        self._scale: float | None = None
        self._waiting: list[float] | None = None  # the values whose noise is estimated when the scale is read
        self._noise: float | None = None  # the noise of those values, without the long-run factor, once it was needed
        self.values: deque[float] = deque(maxlen=length)
        self.seen = 0

    def append(self, x: float) -> None:
        """Add one value and, when it is due, mark the values for an estimate of the noise scale."""
        values, ordered, lag = self.values, self._ordered, self._lag
        if ordered is not None:
            if len(values) == self._length:
                del ordered[bisect_left(ordered, values[0])]
            if not lag:
                insort(ordered, x + 0.0)
            elif len(values) >= lag:
                insort(ordered, values[-lag] + 0.0)
        values.append(x)
        self.seen = seen = self.seen + 1
        if (
            self._estimates_noise
            and (seen % ROWS_PER_ESTIMATE == self._turn or seen <= EVERY_ROW_UNTIL)
            and len(values) >= self._least
        ):
            self._waiting, self._noise = list(values), None

    @property
    def scale(self) -> float | None:
        """The noise scale, in the signal's unit; None while there are too few values.

        It is computed when it is read, because an estimate costs more than all other work for a value, and most scales
        are read only while a signal moves.
        """
        values = self._waiting
        if values is not None:
            self._waiting = None
            small_sample = 1.0 + 4.0 / len(values)
            long_run = long_run_factor(values) if self._momentum else 1.0
            noise = noise_scale(values) if self._noise is None else self._noise
            self._noise = None
            self._scale = max(self._floor, noise * long_run * small_sample)
        return self._scale

    @property
    def least_scale(self) -> float:
        """A lower bound of the noise scale; it is cheaper, because the long-run factor is at least 1."""
        values = self._waiting
        if values is None:
            return (1.0 - ROUNDING) * (self._scale or self._floor)
        if self._noise is None:
            self._noise = noise_scale(values)
        return (1.0 - ROUNDING) * max(self._floor, self._noise * (1.0 + 4.0 / len(values)))

    @property
    def has_scale(self) -> bool:
        """Whether there is a noise scale."""
        return self._waiting is not None or self._scale is not None

    @property
    def has_baseline(self) -> bool:
        """Whether there are enough values for a baseline."""
        return len(self.values) - self._lag >= self._least

    def clear(self) -> None:
        """Discard the values and keep the scale, because the level changed its meaning, but the noise did not."""
        self.values.clear()
        self._ordered = None
        self.seen = 0

    def take_back(self, rows: int, left: int) -> None:  # noqa: ARG002 - the values are counted
        """Forget the newest values, and estimate the noise from the others."""
        take_newest(self.values, rows)
        self._ordered, self.seen = None, len(self.values)
        self._scale = self._waiting = self._noise = None
        if self._estimates_noise and len(self.values) >= self._least:
            self._waiting = list(self.values)

    def lagged_values(self) -> list[float]:
        """Return the values of the baseline's window, oldest first; empty while there are too few."""
        values = list(self.values)[: -self._lag] if self._lag else list(self.values)
        return values if len(values) >= self._least else []

    def baseline(self) -> float | None:
        """Return the median of the lagged window, or None while there are too few values."""
        ordered = self._ordered
        if ordered is None:
            if not self.has_baseline:
                return None
            # -0.0 becomes 0.0: the two sort as equals, and the order would depend on the time at which it is built.
            self._ordered = ordered = sorted([value + 0.0 for value in self.lagged_values()])
        return sorted_median(ordered)

    def innovation(self, x: float, *, trend: bool = True, enough: float = -math.inf) -> float | None:
        """Return how far ``x``, the next value, is above its prediction, in standard errors of the prediction.

        The prediction is the lagged median. With ``trend`` it is also the line through the lagged window, extrapolated,
        and the smaller of the two errors is returned. The standard error of a line grows with the distance:
        σ √(1 + 1/n + (t − t̄)² / Σ(tᵢ − t̄)²). A short history can therefore raise an alarm, but only on a large error.
        The line is not computed if the median alone gives less than ``enough``, because the caller then needs no
        smaller number. If ``enough`` is positive and ``x`` is not above the median, or not by enough even with the
        smallest possible scale, the scale is not computed either, and the result is 0.
        """
        baseline = self.baseline()
        if baseline is None or (self._waiting is None and self._scale is None):
            return None
        if enough > 0.0 and (x <= baseline or (x - baseline) < enough * self.least_scale):
            return 0.0
        scale = self.scale or self._floor
        against_level = (x - baseline) / scale
        if not trend or against_level < enough:
            return against_level
        values = self.lagged_values()
        n = len(values)
        mean, slope = line(values)
        ahead = n + self._lag - (n - 1) / 2
        spread = n * (n * n - 1) / 12
        error = scale * math.sqrt(1 + 1 / n + ahead * ahead / spread)
        return min(against_level, (x - mean - slope * ahead) / error)

    def state(self) -> dict[str, Any]:
        """Return the values, their number and the noise scale."""
        return super().state() | {"scale": self.scale}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; the order is built again from the values."""
        super().load(state)
        if "scale" in state:
            self._scale, self._waiting, self._noise = state["scale"], None, None
        self._ordered = None
