"""What every detector shares: the order of steps, resumes and rewinds, curriculum changes, and evidence.

A detector overrides `_observe`, and `_resume` or `_rebaseline` where its memory needs it. Steps that were already seen,
or come from an attempt that has been replaced, are ignored here, once for all.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from monitor_server.detection.parts.stateful import Stateful
from monitor_server.detection.protocol import Acknowledgement, Finding, Observation, Severity

__all__ = ["CALIBRATION", "StreamDetector", "finite", "first_finite"]

CALIBRATION = "builtin-7"  # names the set of thresholds that this version ships
LARGEST = 1e100  # beyond it sums of squares overflow; such a number is no measurement


class StreamDetector(Stateful):
    """Base of the detectors: takes observations in any order and gives `_observe` each new step once, in order."""

    kind: ClassVar[str]
    severity: ClassVar[Severity]
    reads: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self.attempt: int | None = None
        self.step: int | None = None
        self.data_version: str | None = None

    def update(self, observation: Observation) -> Sequence[Finding]:
        """Take one step and give the findings that hold; nothing for a step already seen."""
        if self.step is not None and self.attempt is not None:
            if (observation.attempt, observation.step) <= (self.attempt, self.step):
                return ()
            if observation.attempt > self.attempt:
                self._resume(observation.step)
            if observation.data_version != self.data_version and self.data_version is not None:
                self._rebaseline()
        self.attempt, self.step = observation.attempt, observation.step
        if observation.data_version is not None:
            self.data_version = observation.data_version
        return self._observe(observation)

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Learn that a person knows; of no consequence to detectors whose findings end by themselves."""

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        raise NotImplementedError

    def _resume(self, step: int) -> None:
        """Learn that a new process goes on from ``step``, which may lie in the past."""

    def _rebaseline(self) -> None:
        """Learn that the data changed, so that levels from before no longer compare."""

    def _finding(self, observation: Observation, summary: str, **evidence: Any) -> Finding:  # noqa: ANN401 - JSON values
        """Give a finding; ``statistic`` and ``threshold`` are required in ``evidence``."""
        severity = evidence.pop("severity", self.severity)
        evidence.setdefault("calibration", CALIBRATION)
        evidence.setdefault("agreeing", [])
        evidence.setdefault("missing", [name for name in self.reads if finite(observation.signals, name) is None])
        return Finding(
            kind=self.kind,
            severity=severity,
            step=observation.step,
            score=float(evidence["statistic"]),
            threshold=float(evidence["threshold"]),
            summary=summary,
            evidence=evidence,
        )


def finite(signals: Mapping[str, float], name: str) -> float | None:
    """Give a signal's value if it was observed and is finite, and small enough for its square to be."""
    value = signals.get(name)
    return value if value is not None and math.isfinite(value) and abs(value) < LARGEST else None


def first_finite(signals: Mapping[str, float], names: Sequence[str]) -> tuple[str, float] | None:
    """Give the first of several signals that was observed with a finite value."""
    for name in names:
        value = finite(signals, name)
        if value is not None:
            return name, value
    return None
