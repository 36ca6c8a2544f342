"""Base class of the detectors of a lasting loss by ranks: a value far lower than ever before in this run."""

import math
from collections.abc import Sequence
from typing import ClassVar

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.base_classes.passes import Pass, is_further_pass, read_pass
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.rare_loss import RareLoss

__all__ = ["LastingLoss"]


class LastingLoss(StreamDetector):
    """Reports 3 to 6 successive values under a share of their baseline, by the measure `RareLoss`.

    Under 1 in 10,000 by ranks it warns, under 1 in 100,000 it is critical. A subclass may also measure the loss in
    deviations, and is critical beyond a bound on them. The finding ends when the value is above three quarters of that
    baseline in three successive rows, or after 40 rows. Further passes over the same responses do not count.

    Attributes:
        signal: The signal that the evidence names.
        share: The largest remaining share of the baseline.
        least: The smallest baseline whose loss counts.
        CRITICAL: The rarity under which the finding is critical; 0 if it never is.
        MOST_ERRORS: The deviations beyond which it is critical at any rarity.
    """

    severity = Severity.WARNING
    skips_rows_without = True
    signal: ClassVar[str]
    share: ClassVar[float] = 0.5
    least: ClassVar[float] = 0.0
    WARNING, CRITICAL, BACK, QUIET_ROWS, HELD_ROWS = 1e-4, 1e-5, 0.75, 3, 40
    MOST_ERRORS: ClassVar[float] = math.inf

    def __init__(self) -> None:
        super().__init__()
        self.loss = RareLoss(self.share)
        self.from_level = 0.0
        self.rarest = 1.0
        self.errors = 0.0
        self.opened: int | None = None
        self.rows = 0
        self.quiet = 0
        self.before: Pass = []

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        value = self._read(observation)
        if value is None:
            return ()
        now = read_pass(observation.finite)
        is_repeated, self.before = is_further_pass(now, self.before), now
        if is_repeated:
            return [self._build_finding(observation, value)] if self.opened is not None else ()
        found = self.loss.update(value)
        errors, baseline = self._measure_errors(value)
        self.rows += 1
        is_rare = found < self.WARNING and (self.loss.baseline or 0.0) >= self.least  # at nearly no row
        if is_rare or errors > self.MOST_ERRORS:
            if self.opened is None:
                self.opened, self.from_level = observation.step, (self.loss.baseline if is_rare else baseline) or 0.0
                self.rarest, self.errors = 1.0, 0.0
                self._open(observation)
            self.rows, self.quiet = 0, 0
            self.rarest, self.errors = min(self.rarest, found if is_rare else 1.0), max(self.errors, errors)
        self.quiet = self.quiet + 1 if value > self.BACK * self.from_level else 0
        if self.quiet >= self.QUIET_ROWS or self.rows >= self.HELD_ROWS:
            self.opened = None
        return [self._build_finding(observation, value)] if self.opened is not None else ()

    def _read(self, observation: Observation) -> float | None:
        """Return the value of this row, or None where it is not observed."""
        raise NotImplementedError

    def _measure_errors(self, value: float) -> tuple[float, float]:  # noqa: ARG002 - for subclasses
        """Return the joint loss of the newest rows in deviations, 0 if they are not low, and the baseline."""
        return 0.0, 0.0

    def _open(self, observation: Observation) -> None:
        """Note the state at the row at which a finding opens."""

    def _describe(self, value: float) -> str:
        """Return the summary."""
        raise NotImplementedError

    def _kind(self) -> str:
        """Return the kind of the finding."""
        return self.kind

    def _build_finding(self, observation: Observation, value: float) -> Finding:
        is_certain = self.errors > self.MOST_ERRORS
        is_critical = is_certain or self.rarest < self.CRITICAL
        return self._finding(
            observation,
            self._describe(value),
            kind=self._kind(),
            severity=Severity.CRITICAL if is_critical else Severity.WARNING,
            signal=self.signal,
            baseline=self.from_level,
            window=len(self.loss.rewards),
            statistic=self.errors if is_certain else -math.log10(self.rarest),
            threshold=self.MOST_ERRORS if is_certain else -math.log10(self.CRITICAL if is_critical else self.WARNING),
            level=value,
            rarity=self.rarest,
            onset=[self.opened, self.opened],
            arithmetic=f"3 to 6 rows, each < {self.share:g} b, and ((c + 1) / (n + 2))^m < 0.0001"
            + (", critical < 0.00001" if self.CRITICAL else ""),
        )

    def _resume(self, step: int) -> None:
        if self.opened is not None and step <= self.opened:
            self.opened = None

    def _rebaseline(self) -> None:
        self.loss.restart()
        self.opened = None
