"""Moving averages, draw-ups and cumulative sums: each takes one finite number at a time and can be saved."""

from monitor_server.detection.statistics.state import Stateful

__all__ = ["Cusum", "DrawUp", "Ema"]

ROUNDING = 1e-9  # far more than the rounding error of a sum of numbers of order one


class Ema(Stateful):
    """Exponential moving average: m ← m + α (x − m), started at the first value.

    The first 1/α values count as a plain mean. Otherwise one early outlier would stay in the average for 1/α rows.

    Args:
        alpha: Weight of a new value, in (0, 1].

    >>> average = Ema(alpha=0.5)
    >>> [average.update(x) for x in (1.0, 3.0, 3.0)]
    [1.0, 2.0, 2.5]
    """

    def __init__(self, alpha: float = 0.1) -> None:
        self._alpha = alpha
        self.value: float | None = None
        self.count = 0

    def take_back(self, rows: int, left: int) -> None:  # noqa: ARG002 - the former value is not known
        """Restart the average with the next row."""
        self.value, self.count = None, 0

    def update(self, x: float) -> float:
        """Add one value and return the average."""
        self.count = count = self.count + 1
        value, weight = self.value, 1.0 / count
        if weight < self._alpha:  # noqa: PLR1730 - cheaper than a call, here and below
            weight = self._alpha
        self.value = value = x if value is None else value + weight * (x - value)
        return value


class DrawUp(Stateful):
    """Rise of the moving average above its lowest value so far, and the step of that lowest value.

    Args:
        alpha: Weight of a new value in the average.
        settle: Number of values before the lowest is recorded, while the average is still rough.

    >>> rise = DrawUp(alpha=1.0, settle=1)
    >>> [rise.update(x, step) for step, x in enumerate((0.5, 0.25, 0.75))]
    [0.0, 0.0, 0.5]
    >>> rise.since
    1
    """

    def __init__(self, alpha: float = 0.1, settle: int = 8) -> None:
        self._alpha = alpha
        self._settle = settle
        self.average = Ema(alpha)
        self.lowest: float | None = None
        self.since: int | None = None

    def update(self, x: float, step: int) -> float:
        """Add one value and return the draw-up, which is 0 while the average settles."""
        average, lowest = self.average, self.lowest
        level = average.update(x)
        if average.count < self._settle:
            return 0.0
        if lowest is None or level <= lowest:
            self.lowest, self.since = level, step
            return 0.0
        return level - lowest

    @property
    def value(self) -> float:
        """The newest draw-up, which is 0 while the average settles."""
        if self.lowest is None or self.average.value is None or self.average.count < self._settle:
            return 0.0
        return self.average.value - self.lowest

    def restart(self) -> None:
        """Discard the average and the lowest value, because the level changed its meaning."""
        self.average, self.lowest, self.since = Ema(self._alpha), None, None


class Cusum(Stateful):
    """One-sided cumulative sum S ← max(0, S + clip(z, ±cap) − k), and the step at which it last left zero.

    The cap prevents a single outlier from raising the alarm.

    Args:
        slack: k, in units of z. A drift below it is always tolerated.
        cap: Largest |z| that counts.

    Reference:
        Page, "Continuous inspection schemes" (1954).

    >>> total = Cusum(slack=0.25, cap=4.0)
    >>> [total.update(z, step) for step, z in enumerate((-1.0, 1.0, 100.0))], total.since
    ([0.0, 0.75, 4.5], 1)
    """

    def __init__(self, slack: float = 0.25, cap: float = 4.0) -> None:
        self._slack = slack
        self._cap = cap
        self.value = 0.0
        self.since: int | None = None

    def update(self, z: float, step: int) -> float:
        """Add one standardised value and return S."""
        cap = self._cap
        if z > cap:
            z = cap
        elif z < -cap:
            z = -cap
        value = self.value + z - self._slack
        if value > 0.0:
            self.value = value
            if self.since is None:
                self.since = step
        else:
            self.value, self.since = 0.0, None
        return self.value

    @property
    def largest_to_zero(self) -> float:
        """A z below which the next sum is certainly 0."""
        return self._slack - self.value - ROUNDING

    def reset(self) -> None:
        """Set the sum back to zero."""
        self.value, self.since = 0.0, None
