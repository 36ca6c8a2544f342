"""The step at which each signal left its best level without a return, and thus the signal that moved first."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor_server.attribution.vitals import VITALS, Vital
from monitor_server.detection.base_classes.held_findings import LONGEST_GAP
from monitor_server.detection.statistics.robust import long_run_factor, noise_scale

__all__ = ["Moved", "Signal", "find_lost", "moved_signals"]

ROWS = 200  # before the alert; an earlier onset gets the step of the first of them
LEAST_ROWS = 6
LEVEL_ROWS = 9  # the best level is the best median of this many successive rows
END_ROWS = 3
LARGEST = 1e100  # sums of larger numbers overflow; such a number is not a measurement
SLACK = 0.5  # of the CUSUM, in deviations
BEYOND = 3.0  # deviations

Signal = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Steps, ascending, and values: both ``(n,)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A signal that had departed when the alert opened.

    Attributes:
        signal: Its name.
        direction: rise, fall, or not finite.
        onset: Earliest and latest step at which the departure may have begun.
        baseline: Its best level before, in its own unit (for a sum, counted from the beginning of the window).
        level: Its level when the alert opened: the median of 3 rows.
        deviations: The change in long-run deviations of its noise; infinite for a constant signal.
        is_surely_later: Whether it certainly began after the first one: the two intervals do not overlap.
    """

    signal: str
    direction: str
    onset: tuple[int, int]
    baseline: float | None
    level: float | None
    deviations: float | None
    is_surely_later: bool = False


class _Departure(NamedTuple):
    onset: tuple[int, int]
    best: float
    level: float
    deviations: float


def find_lost(signals: Mapping[str, Signal], *, opened_step: int) -> list[str]:
    """Return the signals that were lost before an alert, so that what they did before is not its cause.

    They have no value in the newest 25 steps up to it, nor since twice their usual distance, the median of two values.

    >>> steps, values = np.arange(60), np.zeros(60)
    >>> find_lost({"kl/ref": (steps[:20], values[:20]), "entropy/mean": (steps, values)}, opened_step=59)
    ['kl/ref']
    """
    seen = {name: steps[steps <= opened_step].tolist() for name, (steps, _) in signals.items()}
    newest = sorted({step for steps in seen.values() for step in steps[-LONGEST_GAP:]})[-LONGEST_GAP:]
    return [
        name
        for name, steps in seen.items()
        if steps
        and steps[-1] < newest[0]
        and (len(steps) < 2 or opened_step - steps[-1] > 2 * np.median(np.diff(steps)))  # noqa: PLR2004 - one distance
    ]


def moved_signals(signals: Mapping[str, Signal], *, opened_step: int) -> list[Moved]:
    """Return the signals that had departed when an alert opened, the first to move first.

    For each signal the 200 rows up to ``opened_step`` are read, in its bad direction. b = the best median of 9
    successive rows (the lowest if a rise is bad), σ = the robust deviation of successive differences times the long-run
    factor, as in detection. S = max(0, S + (x − b)/σ − 0.5). The signal has departed if the median of the last 3 rows
    lies beyond b by 3 σ and by at least the change that matters. The departure began between the last row with S = 0
    and the first row from which the median of 3 rows stays beyond both. A signal whose newest value is NaN or infinite
    moved at the first such value.

    Signals are ordered by their latest possible onsets, because the end of a best level is blurred, but the first row
    clearly beyond it is not.
    """
    with np.errstate(all="ignore"):  # logarithms of 0, and sums beyond the largest float, are ordinary here
        found = [
            moved
            for name, (steps, values) in signals.items()
            if name in VITALS and (moved := _find_departure(name, steps, values, VITALS[name], opened_step)) is not None
        ]
    found.sort(key=lambda moved: (moved.onset[1], moved.onset[0], moved.signal))
    first = found[0].onset[1] if found else 0
    return [replace(moved, is_surely_later=moved.onset[0] > first) for moved in found]


def _find_departure(
    name: str, steps: NDArray[np.int64], values: NDArray[np.float64], vital: Vital, opened_step: int
) -> Moved | None:
    count = int(np.searchsorted(steps, opened_step, side="right"))
    steps, values = steps[max(0, count - ROWS) : count], values[max(0, count - ROWS) : count]
    broken = _find_break(name, steps, values)
    if broken is not None:
        return broken
    read = np.log(values) if vital.is_log else values
    known = np.isfinite(read) & (np.abs(read) < LARGEST)
    steps, read = steps[known], np.cumsum(read[known]) if vital.is_sum else read[known]
    if len(read) < LEAST_ROWS:
        return None
    signs = {"rise": (1.0,), "fall": (-1.0,), "either": (1.0, -1.0)}[vital.bad]
    departures = [(sign, found) for sign in signs if (found := _departure(steps, sign * read, vital)) is not None]
    if not departures:
        return None
    sign, departure = max(departures, key=lambda pair: pair[1].deviations)
    unit = math.exp if vital.is_log else float
    return Moved(
        signal=name,
        direction="rise" if sign > 0 else "fall",
        onset=departure.onset,
        baseline=unit(sign * departure.best),
        level=unit(sign * departure.level),
        deviations=departure.deviations,
    )


def _find_break(name: str, steps: NDArray[np.int64], values: NDArray[np.float64]) -> Moved | None:
    """Return the departure of a signal whose newest values are not finite: it began at the first value of that run."""
    if not len(values) or np.isfinite(values[-1]):
        return None
    good = np.flatnonzero(np.isfinite(values))
    first = int(good[-1]) + 1 if good.size else 0
    return Moved(
        signal=name,
        direction="not finite",
        onset=(int(steps[first]), int(steps[first])),
        baseline=float(values[good[-1]]) if good.size else None,
        level=None,
        deviations=None,
    )


def _departure(steps: NDArray[np.int64], x: NDArray[np.float64], vital: Vital) -> _Departure | None:
    """Find the rise that ends at the last row; None if there is none."""
    medians = _running_median(x, min(LEVEL_ROWS, max(3, len(x) // 3)))
    place = int(np.argmin(medians))
    best, level = float(medians[place]), float(np.median(x[-END_ROWS:]))
    own = x.tolist()
    sigma = max(noise_scale(own) * long_run_factor(own), 1e-9 * max(1.0, abs(best)))
    clear = max(BEYOND * sigma, vital.least)
    if level - best < clear:
        return None
    cusum, last_zero = 0.0, place
    for row in range(place, len(x)):
        cusum = max(0.0, cusum + (own[row] - best) / sigma - SLACK)
        last_zero = row if cusum == 0.0 else last_zero
    below = np.flatnonzero(_running_median(x, END_ROWS) - best < clear)
    latest = min(int(below[-1]) + END_ROWS, len(x) - 1) if below.size else END_ROWS - 1
    earliest = min(last_zero + 1, latest)
    return _Departure((int(steps[earliest]), int(steps[latest])), best, level, (level - best) / sigma)


def _running_median(x: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    medians: NDArray[np.float64] = np.median(np.lib.stride_tricks.sliding_window_view(x, width), axis=1)
    return medians
