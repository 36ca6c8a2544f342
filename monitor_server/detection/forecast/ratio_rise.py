"""Ratio rise: how much farther the updates reach than at the beginning of the run."""

import math
from collections import deque
from collections.abc import Mapping

from monitor_server.detection.statistics.robust import median
from monitor_server.detection.statistics.state import Stateful, take_newest
from monitor_server.detection.statistics.streaming import Ema

__all__ = ["RatioRise"]

FIRST, LEAST = 20, 8  # the number of values that define the beginning of the run, and the number that a rise needs
STALE_ROWS = 5
TRAIL = 64  # the number of values that a rewind can take back; one that takes back more begins the average anew
PERCENTILE = "ratio/p999"
LARGEST = math.log(100.0)


class RatioRise(Stateful):
    """R = EMA₀.₂(ln ρ) − the median of the first 20 values of ln ρ, where ρ is the 99.9th percentile of the ratios.

    The `Surge` of the ratios compares with the newest 60 rows, and adapts to a rise over a hundred rows. The reference
    is therefore the beginning of the run, as in `AnchoredDeparture`. The largest ratio does not replace the percentile:
    a single token determines it, and it grows with the number of tokens.

    The first rows of a new attempt have no usable ratio. R stays as it was before them, and they do not count as rows
    without ratios.
    """

    def __init__(self) -> None:
        self.first: list[float] = []
        self.level = Ema(0.2)
        self.trail: deque[float] = deque(maxlen=TRAIL)  # the average after each of the newest values
        self.unobserved = 0  # the number of rows since the last value
        self._origin: float | None = None

    def update(self, finite: Mapping[str, float], *, muted: bool) -> float:
        """Process a row; return R, at least 0 and at most ln 100.

        Args:
            finite: The finite signals of the row.
            muted: Whether the row is left out, because its ratio has no meaning.
        """
        ratio = finite.get(PERCENTILE, 0.0)
        if muted or ratio <= 0.0:
            self.unobserved += not muted
            if not self.is_observed:
                return 0.0
        else:
            self.unobserved, value = 0, math.log(ratio)
            self.trail.append(self.level.update(value))
            if len(self.first) < FIRST:
                self.first.append(value)
                self._origin = None
        origin, level = self._origin, self.level.value
        if origin is None or level is None:
            if len(self.first) < LEAST or level is None:
                return 0.0
            self._origin = origin = median(self.first)
        rise = level - origin
        return 0.0 if rise <= 0.0 else min(LARGEST, rise)

    def take_back(self, rows: int, left: int) -> None:
        """Forget the newest values, and those of the first that are among them."""
        count = self.level.count
        super().take_back(rows, left)
        self.first, self._origin = self.first[:left], None
        take_newest(self.trail, rows)
        if self.trail:
            self.level.value, self.level.count = self.trail[-1], count - rows

    @property
    def is_observed(self) -> bool:
        """Whether ratios are observed now, and have been for long enough to know the beginning of the run."""
        return len(self.first) >= LEAST and self.unobserved <= STALE_ROWS
