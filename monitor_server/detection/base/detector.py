"""The base class of the detectors: order of steps, resumes and rewinds, curriculum changes, and evidence.

A detector overrides `_observe`, and `_resume` or `_rebaseline` where its memory needs it. Steps that were already seen,
or that come from an attempt that has been replaced, are ignored here, once for all detectors.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from monitor_server.detection.base.readings import finite
from monitor_server.detection.protocol import Acknowledgement, Finding, Observation, Severity
from monitor_server.detection.statistics.state import Stateful

__all__ = ["CALIBRATION", "StreamDetector"]

CALIBRATION = "builtin-8"  # names the set of thresholds that this version ships


class StreamDetector(Stateful):
    """Base of the detectors: accepts observations in any order and passes each new step to `_observe` once, in order.

    A detector is deterministic, constant in memory, and resumable: a detector that is restored from ``state()`` gives
    the same findings as the original. A finding is returned at every step at which it holds, not only at its first.

    Attributes:
        kind: Kind of the findings.
        severity: Severity of the findings, unless evidence names another.
        reads: Canonical names of the signals that the detector reads.
    """

    kind: ClassVar[str]
    severity: ClassVar[Severity]
    reads: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self.attempt: int | None = None
        self.step: int | None = None
        self.data_version: str | None = None

    def update(self, observation: Observation) -> Sequence[Finding]:
        """Process one step and return the findings that hold; a step that was already seen returns none."""
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
        """Process a person's acknowledgement; detectors whose findings end by themselves ignore it."""

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        """Process one new step and return the findings that hold."""
        raise NotImplementedError

    def _resume(self, step: int) -> None:
        """Prepare for a new process that continues from ``step``, which may lie in the past."""

    def _rebaseline(self) -> None:
        """Discard levels from before a change of the data, because they no longer compare."""

    def _finding(self, observation: Observation, summary: str, **evidence: Any) -> Finding:  # noqa: ANN401 - JSON values
        """Build a finding; ``statistic`` and ``threshold`` are required in ``evidence``."""
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
