"""Base class of the detectors of a departure of one signal. Each consists of a name, a size and a reason."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.base_classes.readings import first_finite, list_missing
from monitor_server.detection.protocol import Finding, Observation
from monitor_server.detection.statistics.departure import Departure, Size

__all__ = ["ShiftDetector"]

QUIET_ROWS = 3
RENAMED_ROWS = 5
HELD_ROWS = 40  # after this many rows the new level becomes the baseline


class ShiftDetector(StreamDetector):
    """Reports a finding while one signal is away from the baseline that it had when it departed.

    The finding ends after 3 rows in which the level has come back by half, or after 40 rows, when the new level becomes
    a baseline. Subclasses set ``reads`` and ``size``; the first signal of ``reads`` that the run sends is used. Another
    one replaces it, with a new baseline, once it comes first in 5 rows in succession: fewer rows without a signal, or
    with a better one, are no reason to discard a baseline.

    Attributes:
        size: The size of a departure.
        what: The subject of the summary sentence.
    """

    skips_rows_without = True
    size: ClassVar[Size]
    what: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.departure = Departure(self.size)
        self._departs: Callable[[float], bool] = self.departure.update
        self.signal = self.reads[0]
        self.renamed = 0  # the number of successive rows in which another signal comes first
        self.from_level: float | None = None
        self.to_level = 0.0
        self.opened: int | None = None
        self.rows = 0
        self.quiet = 0
        self._rule = self._describe_rule()

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        value = observation.finite.get(self.signal)
        if value is None or self.signal != self.reads[0]:
            value = self._choose(observation.finite)
            if value is None:
                return ()
        else:
            self.renamed = 0
        departs = self._departs(value) and self._is_confirmed(observation)
        if self.from_level is None:
            if not departs:
                return ()
            self.from_level, self.opened = self.departure.baseline, observation.step
            self.to_level, self.rows, self.quiet = value, 0, 0
        level = self.departure.level
        if level is not None:
            self._hold(level, departs=departs)
        if self.from_level is None:
            return ()
        # A rewind may have taken back so many rows that there is no level yet.
        return [self._build_finding(observation, value if level is None else level)]

    def _choose(self, finite: Mapping[str, float]) -> float | None:
        """Return the value of the signal, or of another one that now replaces it."""
        found = first_finite(finite, self.reads)
        if found is None:
            return None
        if found[0] == self.signal:
            self.renamed = 0
            return found[1]
        self.renamed += 1
        if self.departure.values and self.renamed < RENAMED_ROWS:
            return finite.get(self.signal)
        self.signal, self.renamed = found[0], 0
        self._rebaseline()
        return found[1]

    def _is_confirmed(self, observation: Observation) -> bool:  # noqa: ARG002 - for subclasses
        """Return whether a departure counts at this step."""
        return True

    def _list_agreeing(self) -> list[str]:
        """Return the other signals that support the finding."""
        return []

    def _hold(self, level: float, *, departs: bool) -> None:
        start, extreme = self.from_level or 0.0, self.to_level
        if (level < extreme) if self.size.is_fall else (level > extreme):
            self.to_level = extreme = level
        back = abs(level - start) < abs(extreme - start) / 2
        self.quiet = 0 if departs or not back else self.quiet + 1
        self.rows = 0 if departs else self.rows + 1
        if self.quiet >= QUIET_ROWS or self.rows >= HELD_ROWS:
            self._close()

    def _close(self) -> None:
        self.from_level, self.opened = None, None

    def _build_finding(self, observation: Observation, level: float) -> Finding:
        departure = self.departure
        return self._finding(
            observation,
            f"{self.what} went from {self.from_level:.3g} to {level:.3g} since step {self.opened}.",
            signal=self.signal,
            baseline=self.from_level,
            window=len(departure.values),
            statistic=departure.score,
            threshold=self.size.errors,
            level=level,
            deviation=departure.deviation,
            agreeing=self._list_agreeing(),
            missing=[] if self.signal == self.reads[0] else list_missing(observation.finite, self.reads[:1]),
            onset=[self.opened, self.opened],
            arithmetic=self._rule,
        )

    def _describe_rule(self) -> str:
        size = self.size
        change = "b - y" if size.is_fall else "y - b"
        return (
            f"y = median of {size.rows} rows, b = median of the 40 before: {change} > {size.least:g}, "
            f"{change} > {size.errors:g} deviations, y {'<' if size.is_fall else '>'} {size.factor:g} b"
        )

    def _resume(self, step: int) -> None:
        self.renamed = 0
        if self.opened is not None and step <= self.opened:
            self._close()

    def _rebaseline(self) -> None:
        self.departure.restart()
        self._close()
