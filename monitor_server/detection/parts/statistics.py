"""Streaming statistics that the detectors are made of: moving averages, windows, robust scales, CUSUMs.

Each takes one finite number at a time, keeps a bounded history and can be saved. None knows a signal or a threshold's
meaning. A lagged baseline ends a few rows before now, so that a shift does not hide itself in its own reference, and
it moves with the run, because a baseline frozen at the start raises alarms on healthy learning.
"""

import math
from collections import deque
from collections.abc import Sequence
from operator import mul, sub

from monitor_server.detection.parts.stateful import Stateful

__all__ = ["Cusum", "DrawUp", "Ema", "History", "line", "long_run_factor", "median", "noise_scale"]

MAD_TO_SIGMA = 1.4826  # of a normal distribution


class Ema(Stateful):
    """Exponential moving average: m ← m + α (x − m), started at the first value.

    Args:
        alpha: Weight of a new value, in (0, 1].
    """

    def __init__(self, alpha: float = 0.1) -> None:
        self._alpha = alpha
        self.value: float | None = None
        self.count = 0

    def update(self, x: float) -> float:
        """Take one value and give the average."""
        self.count += 1
        # The first values count as a plain mean: otherwise one early outlier stays in the average for 1/α rows.
        weight = max(self._alpha, 1.0 / self.count)
        self.value = x if self.value is None else self.value + weight * (x - self.value)
        return self.value


class DrawUp(Stateful):
    """Rise of the moving average above its lowest value so far, and the step of that lowest value.

    Args:
        alpha: Weight of a new value in the average.
        settle: Values before the lowest is looked for, while the average is still rough.
    """

    def __init__(self, alpha: float = 0.1, settle: int = 8) -> None:
        self._alpha = alpha
        self._settle = settle
        self.average = Ema(alpha)
        self.lowest: float | None = None
        self.since: int | None = None

    def update(self, x: float, step: int) -> float:
        """Take one value and give the draw-up, 0 while settling."""
        level = self.average.update(x)
        if self.average.count < self._settle:
            return 0.0
        if self.lowest is None or level <= self.lowest:
            self.lowest, self.since = level, step
        return level - self.lowest

    @property
    def value(self) -> float:
        """The newest draw-up."""
        if self.lowest is None or self.average.value is None:
            return 0.0
        return self.average.value - self.lowest

    def restart(self) -> None:
        """Forget average and lowest: the level changed its meaning."""
        self.average, self.lowest, self.since = Ema(self._alpha), None, None


class Cusum(Stateful):
    """One-sided cumulative sum S ← max(0, S + clip(z, ±cap) − k), with the step at which it last left zero.

    Page (1954). The cap keeps a single outlier from raising the alarm alone.

    Args:
        slack: k, in units of z: drift below it is tolerated for ever.
        cap: Largest |z| that counts.
    """

    def __init__(self, slack: float = 0.25, cap: float = 4.0) -> None:
        self._slack = slack
        self._cap = cap
        self.value = 0.0
        self.since: int | None = None

    def update(self, z: float, step: int) -> float:
        """Take one standardised value and give S."""
        self.value = max(0.0, self.value + max(-self._cap, min(self._cap, z)) - self._slack)
        if self.value == 0.0:
            self.since = None
        elif self.since is None:
            self.since = step
        return self.value

    def reset(self) -> None:
        """Start again from zero."""
        self.value, self.since = 0.0, None


class History(Stateful):
    """The last values of one signal, with a lagged baseline and an innovation against it.

    Args:
        length: Values kept.
        lag: Newest values that the baseline leaves out.
        least: Values that a baseline needs.
        floor: Smallest noise scale, in the signal's unit: what is too small to matter.
        turn: Which row of eight estimates the scale anew, so that a detector's histories do not all do it at once.
        momentum: Whether the signal accumulates, so that its noise is judged by how far a sum of it wanders.
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
        """Take one value."""
        self.values.append(x)
        self.seen += 1
        # The scale moves slowly: every 8th row is enough once there are 20, and keeps a step below a millisecond.
        if len(self.values) >= self._least and (self.seen <= 20 or self.seen % 8 == self._turn):  # noqa: PLR2004 - see above
            values = list(self.values)
            small_sample = 1.0 + 4.0 / len(values)
            long_run = long_run_factor(values) if self._momentum else 1.0
            self.scale = max(self._floor, noise_scale(values) * long_run * small_sample)

    @property
    def is_just_known(self) -> bool:
        """Whether the newest value was the one with which there are enough."""
        return self.seen == self._least

    def clear(self) -> None:
        """Forget the values, keep the scale: the level changed its meaning, the noise did not."""
        self.values.clear()
        self.seen = 0

    def lagged(self) -> list[float]:
        """Give the values of the baseline's window, oldest first; empty while there are too few."""
        values = list(self.values)[: -self._lag] if self._lag else list(self.values)
        return values if len(values) >= self._least else []

    def baseline(self) -> float | None:
        """Give the median of the lagged window."""
        values = self.lagged()
        return median(values) if values else None

    def innovation(self, x: float, *, trend: bool = True) -> float | None:
        """Give how far ``x``, the next value, lies above its prediction, in standard errors of the prediction.

        Against the lagged median, and with ``trend`` also against the line through the lagged window,
        extrapolated; the smaller of the two. The error of a line grows with the distance extrapolated:
        σ √(1 + 1/n + (t − t̄)² / Σ(tᵢ − t̄)²), which is what lets short histories speak without shouting.
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


def median(values: Sequence[float]) -> float:
    """Give the median of at least one value."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def line(values: Sequence[float]) -> tuple[float, float]:
    """Give the mean and the least-squares slope per row of at least two values."""
    n = len(values)
    mean = sum(values) / n
    # Σ (i − ī) v = Σ i v − n ī v̄
    slope = (sum(map(mul, range(n), values)) - n * (n - 1) / 2 * mean) / (n * (n * n - 1) / 12)
    return mean, slope


def noise_scale(values: Sequence[float]) -> float:
    """Give a robust standard deviation of the noise around a slowly moving level.

    σ = 1.4826 · median |xₜ − xₜ₋₁| / √2: successive differences cancel the level, the median ignores spikes.
    """
    differences = list(map(abs, map(sub, values[1:], values)))
    return MAD_TO_SIGMA * median(differences) / math.sqrt(2) if differences else 0.0


def long_run_factor(values: Sequence[float]) -> float:
    """Give √(1 + ρ) / (1 − ρ) for the first autocorrelation ρ of the detrended values, ρ in [0, 0.75].

    Momentum makes neighbouring steps alike. A sum of n of them wanders √((1 + ρ) / (1 − ρ)) times further than white
    noise, and their successive differences are √(1 − ρ) times smaller than white noise's: both together turn
    `noise_scale` into the long-run deviation.
    """
    n = len(values)
    if n < 8:  # noqa: PLR2004 - fewer say nothing about a correlation
        return 1.0
    middle, (mean, slope) = (n - 1) / 2, line(values)
    start = mean - slope * middle
    rest = [v - start - slope * i for i, v in enumerate(values)]
    power = sum(map(mul, rest, rest))
    if power <= 0.0:
        return 1.0
    rho = sum(map(mul, rest, rest[1:])) / power + 4.0 / n  # bias of a detrended estimate
    rho = max(0.0, min(0.75, float(rho)))
    return math.sqrt(1.0 + rho) / (1.0 - rho)
