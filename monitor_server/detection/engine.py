"""The engine: all detectors and the phase machine of one run. It processes one complete step at a time.

The live collector, replay, backtest and tests run only this engine, so their results agree by construction. It reads no
clock and keeps no history beyond the state of its detectors.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from monitor_server.detection.base_classes.detector import DetectorGroup, StreamDetector
from monitor_server.detection.base_classes.held_findings import HeldFindings
from monitor_server.detection.calibration import BUILTIN, AlarmGate, Calibration
from monitor_server.detection.detectors.death_spiral import DeathSpiral
from monitor_server.detection.false_alarm_budget import FalseAlarmBudget
from monitor_server.detection.forecast.forecaster import Forecaster
from monitor_server.detection.phases import PhaseMachine
from monitor_server.detection.protocol import (
    Acknowledgement,
    Assessment,
    Finding,
    Forecast,
    Observation,
    Phase,
)
from monitor_server.detection.registry import build_detectors

__all__ = ["Engine", "EngineFactory"]


class Engine:
    """Computes the assessment for each step of one run.

    It is deterministic, constant in memory and resumable: ``Engine.from_state(engine.state())`` continues bit for bit.
    A step that was seen before, or one of an attempt that has been replaced, changes nothing and returns the previous
    assessment again. A new attempt may start at any step. No number causes an exception.

    Args:
        calibration: The strengths at which alarms open. A state that was saved under another calibration continues
            under this one.

    >>> engine = Engine()
    >>> assessment = engine.update(Observation(step=1, signals={"reward/mean": 0.3, "loss/policy": float("nan")}))
    >>> str(assessment.phase), [finding.kind for finding in assessment.findings]
    ('collapsed', ['non_finite'])
    """

    def __init__(self, calibration: Calibration = BUILTIN) -> None:
        self._gate = AlarmGate(calibration)
        self._warranty = calibration.warranty
        self._budget = FalseAlarmBudget(calibration.warranty) if calibration.warranty else None
        self._begin()
        self._forecast: Forecast | None = None
        self._phase = Phase.WARMUP
        self._drift_input = self._phases.drift_input
        self._findings: Sequence[Finding] = ()
        self._newest: tuple[int, int] | None = None  # attempt, step

    def _begin(self) -> None:
        self._detectors = build_detectors()
        self._group = DetectorGroup(self._detectors.values())
        self._phases = PhaseMachine()
        self._forecaster = Forecaster()
        self._held = HeldFindings()

    def _take_back(self, observation: Observation) -> None:
        """Forget the rows that a rewind replaces; a run that begins again from its first row is assessed as new."""
        replaced, left = self._group.count_replaced(observation)
        if not replaced:
            return
        self._held.take_back(observation.step, replaced)
        self._gate.take_back(replaced, left)
        if self._budget is not None:
            self._budget.take_back(replaced, left)
        if not left:
            self._begin()
            return
        self._phases.take_back(replaced, left)
        self._forecaster.take_back(replaced, left)

    def update(self, observation: Observation) -> Assessment:
        """Process one complete step and return the phase and every finding that holds."""
        position = (observation.attempt, observation.step)
        if self._newest is None or position > self._newest:
            self._take_back(observation)
            self._newest = position
            found = _keep_most_severe(self._group.update(observation))
            self._findings = self._gate.update(observation, self._held.update(observation, found))
            self._phase = self._phases.update(observation.finite, self._findings)
            self._drift_input = self._phases.drift_input
            self._forecast = self._forecaster.forecast(
                observation.finite, self._detectors, self._findings, self._phase, self._drift_input
            )
            if self._budget is not None:  # last: a page that is held back changes neither phase nor forecast
                self._findings = self._budget.update(self._findings)
            for kind in observation.acknowledged:
                self.acknowledge(Acknowledgement(kind=kind, attempt=observation.attempt, step=observation.step))
        return Assessment(
            step=observation.step,
            phase=self._phase,
            drift_input=self._drift_input,
            findings=self._findings,
            forecast=self._forecast,
        )

    @property
    def detectors(self) -> Mapping[str, StreamDetector]:
        """The detectors by name, for reading: only the engine updates them."""
        return self._detectors

    @property
    def forecaster(self) -> Forecaster:
        """The forecaster with the evidence of the newest step, for reading: only the engine updates it."""
        return self._forecaster

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Process a person's acknowledgement of an alert; its effect begins at the next step.

        A death spiral that is only held, because its rule no longer holds, ends. One whose rule holds ends when the
        rule no longer holds. An alarm that opened after the acknowledged step stays open. Repeating an acknowledgement
        changes nothing.
        """
        for detector in self._detectors.values():
            detector.acknowledge(acknowledgement)
        if acknowledgement.kind == DeathSpiral.kind:
            self._held.end(acknowledgement.kind)

    def state(self) -> dict[str, Any]:
        """Return the complete state for a restart, as JSON values (non-finite floats allowed)."""
        state = {
            "order": self._group.state(),
            "detectors": {name: detector.state() for name, detector in self._detectors.items()},
            "held": self._held.state(),
            "gate": self._gate.state(),
            "phases": self._phases.state(),
            "forecaster": self._forecaster.state(),
            "forecast": _saved_forecast(self._forecast) if self._forecast else None,
            "phase": str(self._phase),
            "findings": [finding.state() for finding in self._findings],
            "newest": list(self._newest) if self._newest else None,
        }
        if self._budget is not None and self._warranty is not None:
            state["page_budget"] = self._budget.state() | {"warranty": dataclasses.asdict(self._warranty)}
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any], *, calibration: Calibration = BUILTIN) -> Self:
        """Build an engine from a saved state; a detector that the state does not contain starts fresh."""
        engine = cls(calibration)
        for name, saved in state["detectors"].items():
            if name in engine._detectors:
                engine._detectors[name].load(saved)
        engine._group.load(state.get("order", {}))
        engine._held.load(state.get("held", ()))
        engine._gate.load(state.get("gate", {}))
        engine._phases.load(state["phases"])
        engine._drift_input = engine._phases.drift_input
        engine._forecaster.load(state.get("forecaster", {}))
        if (forecast := state.get("forecast")) is not None:
            engine._forecast = Forecast(
                probabilities=tuple(forecast["probabilities"]),
                base_rates=tuple(forecast["base_rates"]),
                drivers=forecast["drivers"],
                model=forecast["model"],
            )
        engine._phase = Phase(state["phase"])
        engine._findings = [Finding.from_state(saved) for saved in state["findings"]]
        engine._newest = tuple(state["newest"]) if state["newest"] else None
        if engine._budget is not None and "page_budget" in state:
            engine._budget.load(state["page_budget"])
        elif engine._budget is not None:
            engine._budget.begin_late(engine._phases.rows, engine._findings)
        return engine


@dataclass(frozen=True, slots=True)
class EngineFactory:
    """Builds the engines of many runs with one calibration."""

    calibration: Calibration = BUILTIN

    def __call__(self) -> Engine:
        """Build the engine of a new run."""
        return Engine(self.calibration)

    def from_state(self, state: Mapping[str, Any]) -> Engine:
        """Build the engine of a run that continues."""
        return Engine.from_state(state, calibration=self.calibration)


def _keep_most_severe(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Keep one finding of each kind, the most severe one: a failure that two channels detect is one failure."""
    if len(findings) < 2:  # noqa: PLR2004 - nothing to compare
        return findings
    kept: dict[str, Finding] = {}
    for finding in findings:
        held = kept.get(finding.kind)
        if held is None or finding.severity.rank > held.severity.rank:
            kept[finding.kind] = finding
    return list(kept.values())


def _saved_forecast(forecast: Forecast) -> dict[str, Any]:
    """Return a forecast as JSON values: JSON has lists and no tuples."""
    return {
        "probabilities": list(forecast.probabilities),
        "base_rates": list(forecast.base_rates),
        "drivers": forecast.drivers,
        "model": forecast.model,
    }


# Reading the names of saved attributes makes an object slower. So they are read here, from an engine that no run uses.
Engine().state()
