"""Thresholds from healthy runs: conformal factors for whole runs over the union of all detectors.

The score of a run is the largest strength of any of its alarms, or 0 without an alarm. Strength is score over
threshold. Of n healthy runs, take the score of rank ⌈(n + 1)(1 − α)⌉, and let an alarm open only beyond it. For a new
run that is exchangeable with those n, P(alarmed) = P(its score > that one) ≤ α, for any detectors and any dependence
between them. A rank above n has no score, so n ≥ 1/α − 1 runs are needed.

Reference:
    Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World" (2005); Mondrian classes, section 4.5.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from monitor_server.detection.base_classes.detector import DETECTOR_VERSION
from monitor_server.detection.expected_ranges import ExpectedRange, RunValues
from monitor_server.detection.false_alarm_budget import Warranty
from monitor_server.detection.protocol import SEEN_SHARE, Finding, Observation, Severity
from monitor_server.detection.statistics.robust import noise_scale
from monitor_server.detection.statistics.state import Stateful, take_newest

__all__ = [
    "BUILTIN",
    "CLASSES",
    "AlarmGate",
    "BatchClass",
    "Calibration",
    "Profile",
    "RunScore",
    "conformal_factor",
    "runs_needed",
]

REWARD = "reward/mean"
CLASS_ROWS = 20
NOISY = 0.04  # deviation of the reward from row to row: that of a 0/1 reward of about 100 responses
# The severities that a calibration limits, each with the severity of a finding that may not open.
BELOW = {Severity.CRITICAL: Severity.WARNING, Severity.WARNING: Severity.INFO}
CLASSES = ("large batch", "small batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Factors for one class of runs: an alarm opens only at a strength beyond the factor. 0 sets no limit."""

    warn: float = 0.0
    page: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A named set of profiles by batch class. A class without a profile keeps the built-in thresholds.

    ``warranty`` is what the user allows in false pages, if that was stated. ``expected`` contains the range of the
    healthy runs' values for each signal; no detector reads it.
    """

    id: str = DETECTOR_VERSION
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    warranty: Warranty | None = None
    expected: Mapping[str, ExpectedRange] = field(default_factory=dict)

    def profile(self, batch_class: str | None) -> Profile:
        """Return the profile of a class; for an unknown class, the strictest factors of all profiles."""
        if batch_class is not None:
            return self.profiles.get(batch_class, Profile())
        kept = list(self.profiles.values())
        return Profile(warn=max([p.warn for p in kept], default=0.0), page=max([p.page for p in kept], default=0.0))


BUILTIN = Calibration()


def runs_needed(alpha: float) -> int:
    """Return the number of healthy runs that a bound α on the share of alarmed runs needs: the least n ≥ 1/α − 1.

    >>> runs_needed(0.05), runs_needed(0.01)
    (19, 99)
    """
    return math.ceil(1.0 / alpha - 1.0 - 1e-9)


def conformal_factor(scores: Sequence[float], alpha: float) -> float | None:
    """Return the score of rank ⌈(n + 1)(1 − α)⌉, or None if n is too small.

    Args:
        scores: One for each healthy run, at least 0.
        alpha: Largest share of exchangeable healthy runs that may be alarmed, in (0, 1).

    >>> conformal_factor([0.0] * 18 + [1.5], alpha=0.05)
    1.5
    """
    rank = math.ceil((len(scores) + 1) * (1.0 - alpha) - 1e-9)
    return sorted(scores)[rank - 1] if rank <= len(scores) else None


class BatchClass(Stateful):
    """The class of a run by the noise of its first 20 rewards, through which the batch size affects detection."""

    def __init__(self) -> None:
        self.rewards: deque[float] = deque(maxlen=CLASS_ROWS)
        self.rows = 0  # the number of rows until the class was known
        self.name: str | None = None

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; for older versions, which did not count rows, each row had a reward."""
        super().load(state)
        if "rows" not in state:
            self.rows = len(self.rewards)

    def update(self, observation: Observation) -> str | None:
        """Process one step and return the class, or None while it is unknown."""
        if self.name is not None:
            return self.name
        self.rows += 1
        reward = observation.finite.get(REWARD)
        if reward is not None:
            self.rewards.append(reward)
            if len(self.rewards) == CLASS_ROWS:
                self.name = CLASSES[noise_scale(list(self.rewards)) > NOISY]
        return self.name

    def take_back(self, rows: int, left: int) -> None:  # noqa: ARG002 - the rows that are left decide
        """Determine the class again if it rests on rows that are replaced."""
        if left < self.rows:
            self.name = None
            take_newest(self.rewards, self.rows - left)
            self.rows = left


class AlarmGate(Stateful):
    """Opens an alarm only beyond the calibrated strength, and keeps it open until its detector ends it.

    A finding that may not open becomes a warning, or information. Every finding contains the id of the calibration. The
    built-in calibration changes no finding, except at steps of which only a share was seen. An alarm that opened at a
    step which the run repeats is closed, as its alert is.

    Attributes:
        batch_class: The class of the run.
        opened: For each severity, the kinds of the open alarms, each with the step at which it opened.
    """

    def __init__(self, calibration: Calibration = BUILTIN) -> None:
        self._calibration = calibration
        self._is_builtin = calibration.id == DETECTOR_VERSION
        self._factors: dict[str | None, dict[Severity, float]] = {}  # by class; None for an unknown class
        self.batch_class = BatchClass()
        self.opened: dict[str, dict[str, int]] = {Severity.WARNING: {}, Severity.CRITICAL: {}}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; older versions saved the kinds without the steps, and those alarms stay open."""
        super().load(state)
        self.opened = {
            severity: dict(kinds) if isinstance(kinds, Mapping) else dict.fromkeys(kinds, -1)
            for severity, kinds in self.opened.items()
        }

    def update(self, observation: Observation, findings: Sequence[Finding]) -> list[Finding]:
        """Process one step's findings and return them with the severities that the calibration allows."""
        batch_class = self.batch_class.update(observation)
        if not findings:
            for severity in self.opened:
                self.opened[severity] = {}
            return []
        self._close_repeated(observation.step)
        if batch_class not in self._factors:
            profile = self._calibration.profile(batch_class)
            # A critical finding is an alarm as well: it may not open if a warning may not.
            page = max(profile.page, profile.warn)
            self._factors[batch_class] = {Severity.CRITICAL: page, Severity.WARNING: profile.warn}
        factors, needed = self._factors[batch_class], _strength_for_incomplete(observation)
        if needed:
            factors = {severity: max(factor, needed) for severity, factor in factors.items()}
        allowed = [self._limit(finding, factors) for finding in findings]
        held = {finding.kind for finding in findings}
        for severity, kinds in self.opened.items():
            if kinds and not held.issuperset(kinds):
                self.opened[severity] = {kind: since for kind, since in kinds.items() if kind in held}
        return allowed

    def _close_repeated(self, step: int) -> None:
        """Close the alarms that opened at a step or after it. There are some only if the run went back to the step."""
        for severity, kinds in self.opened.items():
            if any(since >= step for since in kinds.values()):
                self.opened[severity] = {kind: since for kind, since in kinds.items() if since < step}

    def _limit(self, finding: Finding, factors: Mapping[Severity, float]) -> Finding:
        kind, severity, opened = finding.kind, finding.severity, self.opened
        while severity in opened and kind not in opened[severity]:
            if finding.strength > factors[severity]:
                opened[severity][kind] = finding.step
            else:
                severity = BELOW[severity]
        if severity is finding.severity and self._is_builtin:
            return finding
        evidence = {**finding.evidence, "calibration": self._calibration.id}
        if severity is not finding.severity:
            evidence |= {"strength": finding.strength, "strength_needed": factors[finding.severity]}
        return finding._replace(severity=severity, evidence=evidence)


def _strength_for_incomplete(observation: Observation) -> float:
    """Return the required strength of an alarm at a step of which only the share s was seen: 1 / √s; 0 at a whole step.

    The standard error of a mean over a share s of the responses is 1 / √s times that over all.
    """
    share = observation.finite.get(SEEN_SHARE)
    return 1.0 / math.sqrt(share) if share is not None and 0.0 < share < 1.0 else 0.0


class RunScore:
    """The scores of one healthy run: the largest strength of its alarms, and of its critical alarms.

    ``steps`` counts recorded steps. ``fact`` is the first alarm without a degree, such as a NaN: a run with one is not
    known to be healthy. ``values`` is the run's contribution to the expected ranges.
    """

    def __init__(self) -> None:
        self._batch_class = BatchClass()
        self.steps = 0
        self.warn = 0.0
        self.page = 0.0
        self.fact: Finding | None = None
        self.kinds: dict[str, float] = {}
        self.values = RunValues()

    @property
    def batch_class(self) -> str:
        """The class of the run; short runs count as small batches."""
        return self._batch_class.name or CLASSES[-1]

    def update(self, observation: Observation, findings: Iterable[Finding]) -> None:
        """Process one step and the findings of the built-in thresholds."""
        self._batch_class.update(observation)
        self.values.update(observation)
        self.steps += 1
        for finding in findings:
            if finding.severity is Severity.INFO:
                continue
            if self.fact is None and math.isinf(finding.strength):
                self.fact = finding
            self.warn = max(self.warn, finding.strength)
            self.kinds[finding.kind] = max(finding.strength, self.kinds.get(finding.kind, 0.0))
            if finding.severity is Severity.CRITICAL:
                self.page = max(self.page, finding.strength)
