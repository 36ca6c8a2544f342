"""Base class of the detectors of a lasting loss by ranks: a value lies far lower than this run has ever had it."""

import math
from collections.abc import Sequence
from typing import ClassVar

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.base_classes.passes import Pass, is_further_pass, read_pass
from monitor_server.detection.collapse_measures.reward_loss import RewardLoss
from monitor_server.detection.protocol import Finding, Observation, Severity

__all__ = ["LastingLoss"]


class LastingLoss(StreamDetector):
    """Reports 2 to 6 successive values under a share of their baseline, by the measure `RewardLoss`.

    Under 1 in 10,000 by ranks it warns, under 1 in 100,000 it is critical. The finding ends when the value is back
    above three quarters of that baseline in three successive rows, or after 40 rows. Further passes over the same
    responses do not count.

    Attributes:
        signal: The signal that the evidence names.
        share: What is left of the baseline at most.
        least: The smallest baseline that can be lost.
        CRITICAL: The rarity under which the finding is critical; 0 where it never is.
    """

    severity = Severity.WARNING
    skips_rows_without = True
    signal: ClassVar[str]
    share: ClassVar[float] = 0.5
    least: ClassVar[float] = 0.0
    WARNING, CRITICAL, BACK, QUIET_ROWS, HELD_ROWS = 1e-4, 1e-5, 0.75, 3, 40

    def __init__(self) -> None:
        super().__init__()
        self.loss = RewardLoss(self.share)
        self.from_level = 0.0
        self.rarest = 1.0
        self.opened: int | None = None
        self.rows = 0
        self.quiet = 0
        self.before: Pass = []

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        value = self._read(observation)
        if value is None:
            return ()
        now = read_pass(observation.signals)
        is_repeated, self.before = is_further_pass(now, self.before), now
        if is_repeated:
            return [self._build_finding(observation, value)] if self.opened is not None else ()
        found = self.loss.update(value)
        self.rows += 1
        if found < self.WARNING and (self.loss.baseline or 0.0) >= self.least:
            if self.opened is None:
                self.opened, self.from_level, self.rarest = observation.step, self.loss.baseline or 0.0, 1.0
                self._open(observation)
            self.rows, self.quiet, self.rarest = 0, 0, min(self.rarest, found)
        self.quiet = self.quiet + 1 if value > self.BACK * self.from_level else 0
        if self.quiet >= self.QUIET_ROWS or self.rows >= self.HELD_ROWS:
            self.opened = None
        return [self._build_finding(observation, value)] if self.opened is not None else ()

    def _read(self, observation: Observation) -> float | None:
        """Return the value of this row, or None where it is not observed."""
        raise NotImplementedError

    def _open(self, observation: Observation) -> None:
        """Note what matters at the row at which a finding opens."""

    def _describe(self, value: float) -> str:
        """Return the summary."""
        raise NotImplementedError

    def _kind(self) -> str:
        """Return the kind of the finding."""
        return self.kind

    def _build_finding(self, observation: Observation, value: float) -> Finding:
        is_critical = self.rarest < self.CRITICAL
        return self._finding(
            observation,
            self._describe(value),
            kind=self._kind(),
            severity=Severity.CRITICAL if is_critical else Severity.WARNING,
            signal=self.signal,
            baseline=self.from_level,
            window=len(self.loss.rewards),
            statistic=-math.log10(self.rarest),
            threshold=-math.log10(self.CRITICAL if is_critical else self.WARNING),
            level=value,
            rarity=self.rarest,
            onset=[self.opened, self.opened],
            arithmetic=f"2 to 6 rows, each < {self.share:g} b, and ((c + 1) / (n + 2))^m < 0.0001"
            + (", critical < 0.00001" if self.CRITICAL else ""),
        )

    def _resume(self, step: int) -> None:
        if self.opened is not None and step <= self.opened:
            self.opened = None

    def _rebaseline(self) -> None:
        self.loss.restart()
        self.opened = None
