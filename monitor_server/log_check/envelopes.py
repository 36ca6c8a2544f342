"""Keeps the envelope of a signal, its least and greatest values over steps, in bounded memory for a small plot."""

import math
from array import array

__all__ = ["Envelope"]

MAX_BUCKETS = 480


class Envelope:
    """At most 480 buckets of neighbouring steps, each with its first step and its least and greatest value.

    When all are in use, neighbours merge in pairs, so that a spike of one step stays visible however long the run is.
    """

    def __init__(self) -> None:
        self.steps = array("q")
        self.lows = array("d")
        self.highs = array("d")
        self.last = math.nan
        self.non_finite: int | None = None
        """The first step whose value was NaN or infinite."""
        self._rows = 0
        self._stride = 1

    def add(self, step: int, value: float) -> None:
        """Take the value of one step."""
        self.last = value
        if not math.isfinite(value):
            self.non_finite = step if self.non_finite is None else self.non_finite
            return
        if self._rows % self._stride == 0:
            if len(self.steps) >= MAX_BUCKETS:
                self._merge()
            self.steps.append(step)
            self.lows.append(value)
            self.highs.append(value)
        else:
            self.lows[-1] = min(self.lows[-1], value)
            self.highs[-1] = max(self.highs[-1], value)
        self._rows += 1

    def _merge(self) -> None:
        self.steps = self.steps[::2]
        self.lows = array("d", map(min, self.lows[::2], self.lows[1::2]))
        self.highs = array("d", map(max, self.highs[::2], self.highs[1::2]))
        self._stride *= 2
