"""The input and the output of detection: observations, acknowledgements, findings, assessments."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

__all__ = [
    "HORIZONS",
    "LARGEST",
    "MOST_SEVERE_FIRST",
    "RULE_PREFIX",
    "SEEN_SHARE",
    "Acknowledgement",
    "Assessment",
    "DriftInput",
    "Finding",
    "Forecast",
    "Observation",
    "Phase",
    "Severity",
]

RULE_PREFIX = "rule:"  # the kind of an alert from a user's rule begins with this
# The signal that the collector adds to an incomplete step: the share of the ranks whose numbers are in it.
SEEN_SHARE = "step/seen_frac"
LARGEST = 1e100  # sums of squares overflow beyond it; such a number is not a measurement
HORIZONS = (10, 25, 50)  # rows ahead that a forecast covers


class Phase(StrEnum):
    """The phase of a run (arXiv 2512.04220, section 5.1); ``unknown`` when the signals it needs are missing."""

    WARMUP = "warmup"
    HEALTHY = "healthy"
    STAGNATION = "stagnation"
    DECAY = "decay"
    ACCELERATION = "acceleration"
    COLLAPSED = "collapsed"
    UNKNOWN = "unknown"

    @classmethod
    def read(cls, stored: str) -> "Phase":
        """Return a stored phase; ``unknown`` for one that only a newer version knows."""
        return cls(stored) if stored in set(cls) else cls.UNKNOWN


class DriftInput(StrEnum):
    """The best observed input for phases and drifts. With less, a drift is detected later and less certainly.

    ``paired``: entropy before and after the update on the same contexts. ``likelihood``: entropy and likelihood of
    correct responses. ``entropy``: entropy alone, whose drift is reported as information. ``metrics``: none of them; no
    phase except the collapse can be recognised.
    """

    PAIRED = "paired"
    LIKELIHOOD = "likelihood"
    ENTROPY = "entropy"
    METRICS = "metrics"


class Severity(StrEnum):
    """The urgency of a finding: info is displayed, a warning is a ticket, a critical finding wakes a person."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    __hash__ = str.__hash__  # the hash of an enum is computed in Python, and every step looks severities up

    @property
    def rank(self) -> int:
        """The place in the order of urgency: 0 is the least urgent."""
        return _RANKS[self]


_RANKS = {severity: rank for rank, severity in enumerate(Severity)}

MOST_SEVERE_FIRST = tuple(str(severity) for severity in reversed(Severity))
"""The severities as texts, in the order in which lists show them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One complete step of one run, ranks merged.

    ``signals`` contains the observed values by canonical name. An absent signal was not observed; NaN was observed. A
    new ``attempt`` with a lower step is a rewind. A new ``data_version`` is a change of the curriculum; a step without
    one has the data of the step before. ``acknowledged`` contains the kinds of the alerts that people acknowledged
    after the step, in a recorded run; in a live run each is a separate `Acknowledgement`.

    Attributes:
        finite: The signals that are finite and small enough to square; detectors use these.

    >>> Observation(step=1, signals={"reward/mean": 0.5, "grad/norm": float("nan")}).finite
    {'reward/mean': 0.5}
    """

    step: int
    signals: Mapping[str, float]
    attempt: int = 1
    time: float | None = None
    data_version: str | None = None
    acknowledged: tuple[str, ...] = ()
    finite: Mapping[str, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Find the finite values once for all detectors; a comparison with NaN is false."""
        finite = {name: value for name, value in self.signals.items() if -LARGEST < value < LARGEST}
        object.__setattr__(self, "finite", finite if len(finite) < len(self.signals) else self.signals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """A person has acknowledged an alert of ``kind``; ``step`` is the newest step of detection at that time.

    It is an input like a step: a replay that applies it after the same step ends in the same state, bit for bit.
    """

    kind: str
    step: int
    attempt: int = 1


class Finding(NamedTuple):
    """The result of a detector at one step, with its arithmetic.

    ``evidence`` contains JSON values only: at least signal, baseline, window, statistic, threshold, calibration,
    agreeing (list), missing (list) and onset ([earliest, latest] step), as far as they apply.
    """

    kind: str
    severity: Severity
    step: int
    score: float
    threshold: float
    summary: str
    evidence: Mapping[str, Any] = {}

    @property
    def strength(self) -> float:
        """Score divided by threshold, at least 1; infinite if there is no degree (a threshold of 0)."""
        if not self.threshold > 0.0:
            return math.inf
        return max(1.0, self.score / self.threshold)

    def state(self) -> dict[str, Any]:
        """Return the finding as JSON values; its evidence consists of JSON values already."""
        return self._asdict() | {"severity": str(self.severity)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Finding":
        """Restore a saved finding."""
        return cls(**{**state, "severity": Severity(state["severity"])})


class Forecast(NamedTuple):
    """The probability of a collapse within the next 10, 25 and 50 rows.

    ``probabilities`` and ``base_rates`` have one number for each of `HORIZONS`; without evidence the two are equal.
    ``drivers`` contains the strongest evidence by name, each with the factor by which it raises the odds of a collapse
    in 11 to 25 rows. ``model`` names the hazard model.
    """

    probabilities: tuple[float, ...]
    base_rates: tuple[float, ...]
    drivers: Mapping[str, float]
    model: str


class Assessment(NamedTuple):
    """The engine's result for one step: the phase, every finding that holds, and the drift input.

    ``forecast`` is None once the run has collapsed, and before the first step.
    """

    step: int
    phase: Phase
    drift_input: DriftInput = DriftInput.METRICS
    findings: Sequence[Finding] = ()
    forecast: Forecast | None = None
