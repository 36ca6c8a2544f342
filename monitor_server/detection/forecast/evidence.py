"""The evidence of a forecast: a few numbers that the detectors compute in any case, each 0 if nothing is wrong."""

import math
from collections import deque
from collections.abc import Mapping, Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.base_classes.held_findings import LONGEST_GAP
from monitor_server.detection.detectors.death_spiral import DeathSpiral
from monitor_server.detection.detectors.paired_drift import PairedDrift
from monitor_server.detection.detectors.run_collapsed import RunCollapsed
from monitor_server.detection.forecast.ratio_rise import RatioRise
from monitor_server.detection.protocol import Finding, Severity
from monitor_server.detection.statistics.robust import median
from monitor_server.detection.statistics.state import Stateful

__all__ = ["EVIDENCE", "Evidence"]

# The meaning of each number, in the words of the API and the dashboard.
EVIDENCE: dict[str, str] = {
    "drift": "the policy has drifted",
    "paired_drift": "the paired change of entropy keeps rising",
    "acceleration": "the likelihood side accelerates",
    "surge": "gradient norm or ratios surge",
    "ratio_rise": "the ratios have risen since the run began",
    "departures": "mechanisms have left their baselines",
    "warnings": "warnings have opened",
    "strength": "the strongest warning is far beyond its threshold",
    "critical": "a critical finding has opened",
    "fall": "the reward has fallen",
}
# An alarm that has been open for this many rows counts half, because most collapses follow their alarm soon.
HALF_LIFE = 20.0
STRONGEST = 100.0
DRIFT_UNIT, PAIRED_UNIT = 0.1, 0.72  # nat per token; the threshold of `PairedDrift`
MOST_DEPARTURES, MOST_WARNINGS = 4.0, 3.0
NEWEST, BEFORE, LEAST_FALL = 3, 25, 0.02
# Information is not an alarm.
PREFIXES = {severity: f"{severity} " for severity in (Severity.WARNING, Severity.CRITICAL)}


class Evidence(Stateful):
    """Reads the evidence of each row, and remembers for how long each alarm has been open.

    Every number is at least 0 and bounded. Statistics without a bound enter as ln(1 + x / unit). The weight of an alarm
    falls with its age: an alarm that has been open for a rows weighs 0.5^(a / 20).
    """

    def __init__(self) -> None:
        self.rows = 0
        self.opened: dict[str, int] = {}  # by severity and kind: the row at which the alarm opened
        self.ratios = RatioRise()
        self._ratio_rise = 0.0

    def take_back(self, rows: int, left: int) -> None:
        """Forget the newest rows, and the alarms that opened in them: one that is found again opens anew."""
        super().take_back(rows, left)
        self.rows = left
        self.opened = {name: row for name, row in self.opened.items() if row <= left}

    def follow(
        self, finite: Mapping[str, float], detectors: Mapping[str, StreamDetector], findings: Sequence[Finding]
    ) -> None:
        """Update the memory for one row: the row at which each alarm opened, and the beginning of the ratios.

        Args:
            finite: The finite signals of the row.
            detectors: The detectors, which have processed the row.
            findings: What they have found in it.
        """
        spiral = detectors["death_spiral"]
        assert isinstance(spiral, DeathSpiral)  # noqa: S101 - the registry names it so
        self._ratio_rise = self.ratios.update(finite, muted=spiral.muted > 0)
        self.rows = rows = self.rows + 1
        if not (findings or self.opened):
            return
        before = self.opened
        names = [PREFIXES[finding.severity] + finding.kind for finding in findings if finding.severity in PREFIXES]
        self.opened = {name: before.get(name, rows) for name in names}

    def read(self, detectors: Mapping[str, StreamDetector], findings: Sequence[Finding]) -> dict[str, float]:
        """Return the evidence of the newest row; numbers that are 0 are left out."""
        spiral, drift, collapsed = detectors["death_spiral"], detectors["paired_drift"], detectors["run_collapsed"]
        assert isinstance(spiral, DeathSpiral)  # noqa: S101 - the registry names them so
        assert isinstance(drift, PairedDrift)  # noqa: S101
        assert isinstance(collapsed, RunCollapsed)  # noqa: S101
        found: dict[str, float] = {}
        acceleration, surge, drifted = spiral.measured
        if drifted > 0.0:
            found["drift"] = math.log1p(drifted / DRIFT_UNIT)
        if drift.rise > 0.0 and drift.is_observed and (statistic := drift.statistic) > 0.0:
            found["paired_drift"] = math.log1p(statistic / PAIRED_UNIT)
        if acceleration > 0.0:
            found["acceleration"] = math.log1p(acceleration)
        if surge > 0.0:
            found["surge"] = math.log1p(surge)
        if self._ratio_rise > 0.0:
            found["ratio_rise"] = self._ratio_rise
        if departed := collapsed.mechanisms.departed:
            found["departures"] = min(MOST_DEPARTURES, len(departed))
        if collapsed.unobserved <= LONGEST_GAP and (fall := _fall(collapsed.rewards, collapsed.floor)) > 0.0:
            found["fall"] = fall
        return found | self._read_alarms(findings) if self.opened else found

    def _read_alarms(self, findings: Sequence[Finding]) -> dict[str, float]:
        opened, rows = self.opened, self.rows
        weights, strength, critical = [], 0.0, 0.0
        for finding in findings:
            severity = finding.severity
            if severity not in PREFIXES:
                continue
            weight = 0.5 ** ((rows - opened[PREFIXES[severity] + finding.kind]) / HALF_LIFE)
            weights.append(weight)
            strength = max(strength, math.log(min(finding.strength, STRONGEST)) * weight)
            if severity is Severity.CRITICAL:
                critical = max(critical, weight)
        read = {"warnings": min(MOST_WARNINGS, sum(weights)), "strength": strength, "critical": critical}
        return {name: value for name, value in read.items() if value > 0.0}


def _fall(rewards: deque[float], floor: float) -> float:
    """Return the share of the reward that the newest 3 rows have lost, against the 20 rows that end 5 rows ago."""
    if len(rewards) < 2 * NEWEST + 2:
        return 0.0
    newest = list(rewards)[-BEFORE:]
    before, now = median(newest[: -NEWEST - 2]), median(newest[-NEWEST:])
    return min(1.0, max(0.0, (before - now) / (before - floor))) if before - floor > LEAST_FALL else 0.0
