"""Expected ranges: the range of the values of healthy runs' signals, by step.

Steps are divided into intervals that grow by a third to a half (0, 8, 12, 16, 24, 32, 48, …), because runs change fast
at the beginning. Within an interval every run has the same weight, however many values it logged there. The range of an
interval reaches from the 5 % to the 95 % quantile of these values, so about 90 % of them lie inside. It shows where
values usually are, and not which values are wrong: no detector reads it.
"""

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from monitor_server.detection.protocol import Observation

__all__ = ["LEAST_RUNS", "MAX_SIGNALS", "SHARE", "ExpectedRange", "RunValues", "expected_ranges"]

SHARE = 0.9  # the share of the values that lie inside
LEAST_RUNS = 5
MAX_SIGNALS = 200
FIRST_END = 8
QUANTILES = np.linspace(0.0, 1.0, 41)  # the quantiles of a run's values that are kept for an interval
MOST_VALUES = 4096  # of a signal in an interval; beyond this number, every second value is kept

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRange:
    """The range of one signal: in ``[steps[i], steps[i + 1])`` from ``low[i]`` to ``high[i]``.

    Attributes:
        steps: The beginnings of the intervals, and the end of the last one; shape [n + 1], ascending.
        low: The 5 % quantile in each interval, shape [n].
        high: The 95 % quantile in each interval, shape [n].
        runs: The smallest number of runs in any interval.
    """

    steps: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    runs: int

    def __post_init__(self) -> None:
        """Raise ValueError if the columns are not a valid range."""
        count = len(self.low)
        if not (count and len(self.high) == count and len(self.steps) == count + 1):
            raise ValueError(f"a range must have a low and a high value for each interval, got {self}")
        if any(after <= step for step, after in zip(self.steps, self.steps[1:], strict=False)):
            raise ValueError(f"the steps of a range must ascend, got {self.steps}")
        if not all(map(math.isfinite, (*self.low, *self.high))):
            raise ValueError(f"the values of a range must be finite, got {self}")


def interval_of(step: int) -> Interval:
    """Return the interval of a step: its first step, and the first one after it.

    >>> interval_of(3), interval_of(8), interval_of(13), interval_of(100)
    ((0, 8), (8, 12), (12, 16), (96, 128))
    """
    if step < FIRST_END:
        return 0, FIRST_END
    power = 1 << (step.bit_length() - 1)
    middle = power + power // 2
    return (power, middle) if step < middle else (middle, 2 * power)


class RunValues:
    """Collects the values of one run by interval. Memory is bounded, whatever the length of the run.

    Steps of an interval that the run has left before a rewind are ignored.
    """

    def __init__(self) -> None:
        self.kept: dict[tuple[str, Interval], tuple[float, ...]] = {}
        self._interval: Interval = interval_of(0)
        self._values: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        self._strides: defaultdict[str, int] = defaultdict(lambda: 1)
        self._seen: defaultdict[str, int] = defaultdict(int)

    def update(self, observation: Observation) -> None:
        """Process one step."""
        first, after = self._interval
        if observation.step < first:
            return
        if observation.step >= after:
            self.close()
            self._interval = interval_of(observation.step)
        for signal, value in observation.signals.items():
            if not math.isfinite(value) or (signal not in self._values and len(self._values) >= MAX_SIGNALS):
                continue
            self._seen[signal] += 1
            if self._seen[signal] % self._strides[signal]:
                continue
            values = self._values[signal]
            values.append(value)
            if len(values) >= MOST_VALUES:
                self._values[signal] = values[::2]
                self._strides[signal] *= 2

    def close(self) -> None:
        """Reduce the values of the newest interval to quantiles."""
        for signal, values in self._values.items():
            self.kept[signal, self._interval] = tuple(_quantiles(np.frombuffer(values), QUANTILES))
        for held in (self._values, self._strides, self._seen):
            held.clear()


def expected_ranges(runs: Iterable[RunValues]) -> dict[str, ExpectedRange]:
    """Compute the range of each signal over healthy runs; an interval needs at least `LEAST_RUNS`.

    A range ends where the next interval has too few runs.
    """
    pooled: defaultdict[str, dict[Interval, list[tuple[float, ...]]]] = defaultdict(dict)
    for run in runs:
        run.close()
        for (signal, interval), values in run.kept.items():
            pooled[signal].setdefault(interval, []).append(values)
    ranges = {signal: _range(held) for signal, held in sorted(pooled.items())}
    return dict([(signal, held) for signal, held in ranges.items() if held is not None][:MAX_SIGNALS])


def _range(held: Mapping[Interval, Sequence[tuple[float, ...]]]) -> ExpectedRange | None:
    kept: list[tuple[Interval, Sequence[tuple[float, ...]]]] = []
    for interval in sorted(held):
        if len(held[interval]) >= LEAST_RUNS and (not kept or kept[-1][0][1] == interval[0]):
            kept.append((interval, held[interval]))
        elif kept:
            break
    if not kept:
        return None
    shares = np.array([(1 - SHARE) / 2, (1 + SHARE) / 2])
    ends = [_quantiles(np.asarray(values), shares) for _, values in kept]
    return ExpectedRange(
        steps=(*(interval[0] for interval, _ in kept), kept[-1][0][1]),
        low=tuple(low for low, _ in ends),
        high=tuple(high for _, high in ends),
        runs=min(len(values) for _, values in kept),
    )


def _quantiles(values: np.ndarray, shares: np.ndarray) -> list[float]:
    """Return quantiles of finite values, computed with halves, because large differences would overflow."""
    return [2.0 * float(half) for half in np.quantile(values / 2.0, shares)]
