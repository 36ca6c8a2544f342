"""Gradient spike: gradient norms a hundred times above all earlier ones, from data or advantages out of scale."""

from collections.abc import Mapping, Sequence
from typing import Any

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.base_classes.readings import list_missing
from monitor_server.detection.detector_parts.largest_sizes import LargestSizes
from monitor_server.detection.protocol import Finding, Observation, Severity

__all__ = ["GradientSpike"]

NORM, ADVANTAGE = "grad/norm", "advantage/mean_abs"


class GradientSpike(StreamDetector):
    """Warns at two gradient norms within three rows above 100 times the largest of the 40 rows before.

    Spikes of ten times the largest earlier row are normal, and `GradientExplosion` needs them to last. A hundred times
    in two rows is different: a poisoned batch or a loss with a wrong scale causes them, and the optimiser's moments
    keep such gradients for tens of rows.

    One such row is enough, and is critical, if the mean absolute advantage in the same row exceeds ten times the
    largest of its 40 rows before: advantages are normalised, so a batch with such large advantages is wrong. The
    finding holds for 20 rows. The norm before clipping is needed.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(GradientSpike(), {"grad/norm": [0.5, 0.6, 0.4, 0.5] * 4 + [150.0, 0.5, 90.0]})
    [(18, 'gradient_explosion', 'warning')]
    """

    kind = "gradient_explosion"
    severity = Severity.WARNING
    reads = (NORM, ADVANTAGE)
    skips_rows_without = True
    FACTOR, ADVANTAGE_FACTOR, LARGE, NEAR, HELD_ROWS = 100.0, 10.0, 10.0, 3, 20

    def __init__(self) -> None:
        super().__init__()
        self.records = LargestSizes({NORM: self.FACTOR, ADVANTAGE: self.ADVANTAGE_FACTOR}, least=8)
        self.record = 0.0  # of the norm, before the newest spike
        self.worst = 0.0
        self.opened: int | None = None
        # The newest rows with a norm, while a spike is near: step; of a spike also norm, record, and whether critical.
        self.recent: list[list[Any]] = []
        self.is_critical = False

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        signals = observation.signals
        norm = observation.finite.get(NORM)
        if norm is None or norm <= 0.0:  # a norm of 0 comes from groups without variance
            return ()
        passed = self.records.find_exceeding(observation.finite) if norm > self.LARGE else []
        if NORM in passed:
            is_unscaled = ADVANTAGE in passed
            if self.opened is None and (0 < self._count_rows() < self.NEAR or is_unscaled):
                self.opened, self.worst = observation.step, 0.0
            self.record, self.worst = self.records.largest(NORM), max(self.worst, norm)
            self.is_critical = self.is_critical or is_unscaled
            self._remember(observation.step, norm, self.record, is_unscaled)
        else:  # a spike does not enter the baseline
            self.records.update(signals)
            if self.recent:
                self._remember(observation.step)
        finding = [self._build_finding(observation)] if self.opened is not None else []
        if self._count_rows() > self.HELD_ROWS:
            self._close()
        return finding

    def _remember(self, step: int, *spike: float) -> None:
        self.recent.append([step, *spike])
        del self.recent[: -self.HELD_ROWS - 1]

    def _count_rows(self) -> int:
        """Return the number of rows with a norm from the newest spike on; 0 without a spike."""
        places = (place for place, row in enumerate(reversed(self.recent), start=1) if len(row) > 1)
        return next(places, 0)

    def _build_finding(self, observation: Observation) -> Finding:
        scale = " The advantages of the batch have lost their scale." if self.is_critical else ""
        return self._finding(
            observation,
            f"The gradient norm reached {self.worst:.3g} since step {self.opened}; "
            f"before, it was at most {self.record:.3g}.{scale}",
            severity=Severity.CRITICAL if self.is_critical else self.severity,
            signal=NORM,
            baseline=self.record,
            window=len(self.records.rows),
            statistic=self.worst,
            threshold=max(self.LARGE, self.FACTOR * self.record),
            agreeing=[ADVANTAGE] if self.is_critical else [],
            missing=list_missing(observation.finite, self.reads),
            onset=[self.opened, self.opened],
            arithmetic="g > 10 and g > 100 times the largest of 40 rows, in two rows of three; critical: in one row "
            "with an advantage above 10 times its largest",
        )

    def _resume(self, step: int) -> None:
        """Forget the spikes in the rows that are replaced; the finding rests on the others, if it opened before."""
        if self.opened is not None and step <= self.opened:
            self.opened = None
        left = [row for row in self.recent if row[0] < step]
        if len(left) == len(self.recent):
            return
        spikes = [row for row in left if len(row) > 1]
        if self.opened is None and not spikes:
            self._close()
        elif self.opened is not None and not any(row[0] >= self.opened for row in spikes):
            self.recent = [[self.opened, self.worst, self.record, self.is_critical]]  # its spikes are too long ago
        else:
            self.recent, since = left, self.opened if self.opened is not None else step
            self.record = spikes[-1][2]
            counted = [row for row in spikes if row[0] >= since]
            self.worst = max([row[1] for row in counted], default=0.0)
            self.is_critical = any(row[3] for row in counted)

    def _close(self) -> None:
        self.opened, self.is_critical, self.recent = None, False, []

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; older versions saved only the number of rows since the newest spike."""
        super().load(state)
        rows = state.get("rows", self.NEAR)
        if "recent" not in state and (self.opened is not None or rows < self.NEAR):
            begun = -1 if self.opened is None else self.opened
            self.recent = [[begun, self.worst, self.record, self.is_critical], *[[begun]] * (rows - 1)]
