"""The engine: one run's detectors and its phase machine, fed one complete step at a time.

Live collector, replay, backtest and tests run this and nothing else, so that they agree by construction. It reads no
clock and keeps no history beyond its detectors' state.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from monitor_server.detection.calibration import BUILTIN, Calibration, Gate
from monitor_server.detection.phases import PhaseMachine
from monitor_server.detection.protocol import Acknowledgement, Finding, Observation, Phase, Severity, Verdict
from monitor_server.detection.registry import detectors

__all__ = ["Engine"]


class Engine:
    """Gives the verdict for each step of one run.

    Deterministic, constant in memory, and resumable: ``Engine.from_state(engine.state())`` goes on bit for bit. A step
    seen before, or one of an attempt that has been replaced, changes nothing and gets the standing verdict again; a
    new attempt may start at any step. Never raises on any number.
    """

    calibration: ClassVar[Calibration] = BUILTIN

    def __init__(self) -> None:
        self._gate = Gate(self.calibration)
        self._detectors = detectors()
        self._phases = PhaseMachine()
        self._phase = Phase.WARMUP
        self._findings: Sequence[Finding] = ()
        self._newest: tuple[int, int] | None = None  # attempt, step

    @classmethod
    def calibrated(cls, calibration: Calibration) -> type[Self]:
        """Give the engine whose alarms open at a calibration's strengths.

        A state saved under another calibration goes on under this one.
        """
        return type(cls.__name__, (cls,), {"calibration": calibration})

    def update(self, observation: Observation) -> Verdict:
        """Take one complete step and give the phase and every finding that holds."""
        position = (observation.attempt, observation.step)
        if self._newest is None or position > self._newest:
            self._newest = position
            found = [f for detector in self._detectors.values() for f in detector.update(observation)]
            self._findings = self._gate.update(observation, _strongest(found))
            self._phase = self._phases.update(observation.signals, self._findings)
        return Verdict(
            step=observation.step,
            phase=self._phase,
            capability=self._phases.capability,
            findings=self._findings,
        )

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Take a person's word on an alert; its effect shows from the next step on.

        A death spiral that is only held, its rule no longer met, ends; one whose rule is met ends when it is not. An
        alarm that opened after the step acknowledged stands. Giving the same word twice changes nothing.
        """
        for detector in self._detectors.values():
            detector.acknowledge(acknowledgement)

    def state(self) -> dict[str, Any]:
        """Give everything needed to go on after a restart, as JSON values (non-finite floats allowed)."""
        return {
            "detectors": {name: detector.state() for name, detector in self._detectors.items()},
            "gate": self._gate.state(),
            "phases": self._phases.state(),
            "phase": str(self._phase),
            "findings": [
                dataclasses.asdict(finding) | {"severity": str(finding.severity)} for finding in self._findings
            ],
            "newest": list(self._newest) if self._newest else None,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild from a saved state; a detector that the state does not know starts fresh."""
        engine = cls()
        for name, saved in state["detectors"].items():
            if name in engine._detectors:
                engine._detectors[name].load(saved)
        engine._gate.load(state.get("gate", {}))
        engine._phases.load(state["phases"])
        engine._phase = Phase(state["phase"])
        engine._findings = [
            Finding(**{**saved, "severity": Severity(saved["severity"])}) for saved in state["findings"]
        ]
        engine._newest = tuple(state["newest"]) if state["newest"] else None
        return engine


def _strongest(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Keep one finding a kind, the most severe: the same failure seen by two channels is one failure."""
    order = list(Severity)
    kept: dict[str, Finding] = {}
    for finding in findings:
        held = kept.get(finding.kind)
        if held is None or order.index(finding.severity) > order.index(held.severity):
            kept[finding.kind] = finding
    return list(kept.values())
