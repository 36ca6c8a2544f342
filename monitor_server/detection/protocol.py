"""What goes into detection and what comes out: the protocol of every detector and of the engine."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, Self

__all__ = ["Acknowledgement", "Capability", "Detector", "Finding", "Observation", "Phase", "Severity", "Verdict"]


class Phase(StrEnum):
    """The phase of a run (method.md, section 5.1 of arXiv 2512.04220); ``unknown`` when telemetry is stale."""

    WARMUP = "warmup"
    HEALTHY = "healthy"
    STAGNATION = "stagnation"
    DECAY = "decay"
    ACCELERATION = "acceleration"
    COLLAPSED = "collapsed"
    UNKNOWN = "unknown"


class Capability(StrEnum):
    """The best that is observed of the likelihood side; with less, drift is seen later, and less is said of it.

    ``paired``: entropy before and after the update on the same contexts. ``likelihood``: entropy and likelihood of
    correct responses. ``entropy``: entropy alone, whose drift is information. ``metrics``: none of them, and no phase
    but the collapse can be told.
    """

    PAIRED = "paired"
    LIKELIHOOD = "likelihood"
    ENTROPY = "entropy"
    METRICS = "metrics"


class Severity(StrEnum):
    """How much a finding matters: info is shown, warning is a ticket, critical is a page."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One complete step of one run, ranks merged.

    ``signals`` holds what was observed, by canonical name; an absent signal was not observed, NaN was.
    A new ``attempt`` with a lower step is a rewind; a new ``data_version`` is a curriculum change.
    """

    step: int
    signals: Mapping[str, float]
    attempt: int = 1
    time: float | None = None
    data_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """A person's word that an alert of ``kind`` is known, and the newest step detection had taken by then.

    An input like a step: a replay that gives it again after the same step ends in the same state, bit for bit.
    """

    kind: str
    step: int
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a detector says at one step, with its arithmetic.

    ``evidence`` holds JSON values only: at least signal, baseline, window, statistic, threshold, calibration,
    agreeing (list), missing (list) and onset ([earliest, latest] step) where they apply.
    """

    kind: str
    severity: Severity
    step: int
    score: float
    threshold: float
    summary: str
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def strength(self) -> float:
        """Score over threshold, at least 1; infinite for what is no matter of degree (a threshold of 0)."""
        if not self.threshold > 0.0:
            return math.inf
        return max(1.0, self.score / self.threshold)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The engine's answer for one step: the phase, every finding that holds, and what they could be drawn from."""

    step: int
    phase: Phase
    capability: Capability = Capability.METRICS
    findings: Sequence[Finding] = ()


class Detector(Protocol):
    """Reads one observation at a time; deterministic, constant memory, resumable from its state.

    A finding is given at every step at which it holds, not only when it begins. ``state()`` holds JSON values
    (non-finite floats allowed), such that ``from_state(state())`` goes on exactly as the original would.
    """

    def update(self, observation: Observation) -> Sequence[Finding]:
        """Take one step and give the findings that hold."""

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Let go of an alarm that is only held, from the next step on."""

    def state(self) -> dict[str, Any]:
        """Give everything needed to go on after a restart."""

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from a saved state."""
