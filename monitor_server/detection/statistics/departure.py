"""Departures: one signal leaves its own recent baseline by a size that matters and beyond its noise.

The detectors that need only a trainer's own metrics are built from this. A detector defines the size that matters. Four
rows of baseline are enough, because half of the failures in real logs come before row 20.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice
from typing import Any

from monitor_server.detection.statistics.rarity import MOST_ROWS, is_rarer
from monitor_server.detection.statistics.robust import MAD_TO_SIGMA, median_distance, sorted_median
from monitor_server.detection.statistics.state import Stateful, find_floor, take_newest

__all__ = ["Departure", "Size", "second_largest"]

WINDOW = 40  # rows of baseline
LEAST = 4  # rows of baseline that a departure needs
SMALLEST_DEVIATION = 1e-12  # keeps the score of a constant signal finite
# The number of rows for which one look at the baseline is used: each row moves a median by at most one place.
ROWS_PER_LOOK = 16
ROUNDING = 1e-9  # relative; far more than the rounding error of a difference
_TURNS = cycle(range(ROWS_PER_LOOK))  # one for each departure, in the order of creation; it does not change results


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of a departure; all conditions must hold.

    Args:
        factor: The level must pass ``factor`` times the baseline, both counted from the signal's floor: above 1 for
            a rise, below 1 for a fall, 1 where only the other conditions count.
        least: Smallest change that matters, in the signal's unit.
        errors: Smallest change in robust deviations of the baseline.
        rows: Number of newest rows whose median is the level. From 3 on a single row can never count as a departure;
            with 2, the mean of the two, a very large one can.
        noise: Smallest deviation assumed, in the signal's unit.
        each: Whether every one of the newest rows must pass the factor, and not only their median.
        rarity: Largest `rarity` of the newest rows, so that values which the run has had before are not a departure. 1
            sets no condition.
    """

    factor: float = 1.0
    least: float = 0.0
    errors: float = 4.0
    rows: int = 2
    noise: float = 0.0
    each: bool = False
    rarity: float = 1e-3

    @property
    def is_fall(self) -> bool:
        """Whether the departure is downwards."""
        return self.factor < 1.0


class Departure(Stateful):
    """Compares the median of the newest rows with the median of a lagged window.

    The signal departs if s (y − b) > least, s (y − b) > errors · σ (1 + 4 / n), y lies beyond factor · b, and the
    newest rows are rare. Here y is the level, b and σ are the median and 1.4826 · MAD of up to 40 rows that end one row
    before the level's, and s = ±1.

    Args:
        size: What counts as a departure.

    Attributes:
        level: Median of the newest rows.
        baseline: Median of the window before.
        deviation: Noise of the baseline when the change was last large enough to be compared with it.
        score: The change in those deviations, then.

    >>> signal = Departure(Size(factor=2.0, rows=2))
    >>> [signal.update(x) for x in (1.0, 1.1, 0.9, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0)][-4:]
    [False, False, False, True]
    """

    def __init__(self, size: Size) -> None:
        self._size = size
        self._rows = size.rows
        self._falls = size.is_fall
        self.values: deque[float] = deque(maxlen=WINDOW + size.rows + 1)
        self.floor = 0.0
        self.deviation = 0.0
        self.score = 0.0
        self.departs = False
        self._limit = 0.0  # there is no departure while none of the newest rows exceeds it
        self._rows_left = 0  # the number of rows for which the limit holds
        self._passing = 0  # the number of rows in which a row that exceeded the limit is still among the newest
        self._departed: tuple[float, float] | None = None  # level and baseline of a row that departs because of them
        # The earlier window, in order, while rows are compared one after the other.
        self._before: list[float] | None = None
        self._leaving: float | None = None  # the value that leaves it at the next row
        self._places = _places(size)
        self._turn = next(_TURNS)  # the number of rows by which its look is earlier, so that departures look in turn

    def update(self, x: float) -> bool:
        """Add one finite value and return whether the signal has departed.

        A step updates tens of departures, and nearly all of them only need a comparison with a limit that holds for
        some rows. They are compared with the baseline itself only if one of the newest rows exceeds the limit.
        """
        x += 0.0  # -0.0 becomes 0.0, so that the order of a sorted baseline is always the same
        if x < self.floor:  # noqa: PLR1730 - cheaper than a call
            self.floor = x
        self.values.append(x)
        rows_left = self._rows_left
        if rows_left:
            self._rows_left = rows_left - 1
            if (x < self._limit) if self._falls else (x > self._limit):
                self._passing = self._rows - 1
            elif self._passing:
                self._passing -= 1
            else:
                self.departs = False
                return False
        self.departs = departs = self._compare(looks=not rows_left)
        return departs

    def append(self, x: float) -> None:
        """Add one finite value whose departure nobody asks for: level, baseline and change are computed when read."""
        self.values.append(x + 0.0)

    def _compare(self, *, looks: bool) -> bool:
        """Compare the level with the baseline, and if it is due, compute a limit for the next rows."""
        values, rows, size, falls = list(self.values), self._rows, self._size, self._falls
        count = len(values) - rows - 1  # the number of earlier rows
        if count < LEAST:
            return False
        before, newest = self._sort_before(values), sorted(values[-rows:])
        if looks:
            self._look_ahead(before, newest)
        if self._passing:  # so that the next row is compared as well
            self._before, self._leaving = before, values[0] if count == WINDOW else None
        baseline, level = sorted_median(before), sorted_median(newest)
        change = baseline - level if falls else level - baseline
        if change <= size.least or not self._is_beyond(level, baseline):
            return False
        # If the size requires it, each of the newest rows must be large as well.
        if size.each and not self._is_beyond(newest[-1] if falls else newest[0], baseline):
            return False
        spread = MAD_TO_SIGMA * median_distance(before, baseline)
        self.deviation = deviation = spread * (1.0 + 4.0 / count) + size.noise
        self.score = change / max(deviation, SMALLEST_DEVIATION)
        if change <= size.errors * deviation:
            return False
        self._departed = level, baseline
        return self._is_rare(values, before, newest)

    def _sort_before(self, values: Sequence[float]) -> list[float]:
        """Return the earlier window in ascending order; if it was sorted at the last row, only one value is moved."""
        before, self._before = self._before, None
        if before is None:
            return sorted(values[: -self._rows - 1])
        if self._leaving is not None:
            del before[bisect_left(before, self._leaving)]
        insort(before, values[-self._rows - 2])
        return before

    def _is_rare(self, values: Sequence[float], before: Sequence[float], newest: Sequence[float]) -> bool:
        """Return whether the newest rows are rare enough.

        This is certain if all of them lie beyond all but a few rows of the window, which one comparison shows.
        """
        places, falls, bound = self._places[len(before)], self._falls, self._size.rarity
        if places:
            lie_beyond = newest[-1] < before[places - 1] if falls else newest[0] > before[-places]
            if lie_beyond:
                return True
        return bound >= 1.0 or is_rarer(values, before, bound, falls=falls)

    def _is_beyond(self, level: float, baseline: float) -> bool:
        """Return whether a level passes the factor. Rises count from 0, because negative values have no multiples."""
        size = self._size
        if self._falls:
            return level - self.floor < size.factor * (baseline - self.floor)
        return size.factor == 1.0 or level > size.factor * baseline

    def _look_ahead(self, before: Sequence[float], newest: Sequence[float]) -> None:
        """Note a limit on the newest rows below which no level departs, and the number of rows for which it holds.

        After k rows, a median is between the values k places below it and k places above it.
        """
        size, half = self._size, len(before) // 2
        rows = min(ROWS_PER_LOOK, half - 1)
        if rows == ROWS_PER_LOOK:
            rows, self._turn = rows - self._turn, 0
        self._rows_left = rows
        if self._falls:
            most, floor = before[half + rows], self.floor
            margin = ROUNDING * (abs(most) + abs(floor) + size.least)
            self._limit = min(most - size.least, floor + size.factor * (most - floor)) + margin
            passes = newest[0] < self._limit
        else:
            least = before[half - 1 - rows]
            self._limit = least + size.least - ROUNDING * (abs(least) + size.least)
            if size.factor != 1.0:
                self._limit = max(self._limit, size.factor * least)
            passes = newest[-1] > self._limit
        self._passing = self._rows - 1 if passes else 0

    @property
    def baseline(self) -> float | None:
        """Median of the earlier window; None while it has too few rows."""
        if self.departs and self._departed:
            return self._departed[1]
        before = self._before or sorted(list(self.values)[: -self._rows - 1])
        return sorted_median(before) if len(before) >= LEAST else None

    @property
    def level(self) -> float | None:
        """Median of the newest rows; None while there is no baseline."""
        if self.departs and self._departed:
            return self._departed[0]
        if len(self.values) - self._rows - 1 < LEAST:
            return None
        return sorted_median(sorted(islice(reversed(self.values), self._rows)))

    def restart(self) -> None:
        """Discard the baseline, because the signal changed its meaning."""
        self.values.clear()
        self.floor, self.departs = 0.0, False
        self._rows_left, self._passing, self._before, self._turn = 0, 0, None, next(_TURNS)

    @property
    def change(self) -> float:
        """The level's difference from the baseline, 0 before there is one."""
        return (self.level or 0.0) - (self.baseline or 0.0)

    @property
    def strength(self) -> float:
        """The newest score divided by the required number of deviations."""
        return self.score / self._size.errors

    def take_back(self, rows: int, left: int) -> None:  # noqa: ARG002 - the values are counted
        """Forget the newest values, and a floor that may be one of them."""
        values, floor = self.values.copy(), self.floor
        taken = take_newest(values, rows)
        Departure.restart(self)
        self.values, self.floor = values, find_floor(floor, values, taken)

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; the limit is computed again at the next value."""
        super().load(state)
        self._rows_left, self._passing, self._departed, self._before = 0, 0, None, None


@cache
def _places(size: Size) -> tuple[int, ...]:
    """Return for each window length how many of its rows may be as extreme as all of the newest rows if those are rare.

    The number is one less, because the row between the two parts may be as extreme as well.
    """
    if not 0 < size.rows < MOST_ROWS:
        return (0,) * (WINDOW + 1)
    return tuple(
        sum(((count + 1) / (length + 3)) ** size.rows < size.rarity for count in range(1, length))
        for length in range(WINDOW + 1)
    )


def second_largest(strengths: Iterable[float]) -> float:
    """Return the second largest of at least two strengths: the strength of a rule that requires two to agree.

    >>> second_largest([1.2, 7.0, 3.0])
    3.0
    """
    return sorted(strengths)[-2]
