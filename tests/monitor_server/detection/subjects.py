"""Subjects that tests of detection share: every detector, and a death spiral with the drifts that it reads."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from monitor_server.detection.detectors.death_spiral import DeathSpiral
from monitor_server.detection.detectors.likelihood_drift import LikelihoodDrift
from monitor_server.detection.detectors.paired_drift import PairedDrift
from monitor_server.detection.protocol import Finding, Observation
from monitor_server.detection.registry import DETECTORS


class SpiralWithDrifts:
    """A death spiral and the two drifts that an engine updates before it; returns the findings of the spiral alone."""

    def __init__(self) -> None:
        self.drifts = PairedDrift(), LikelihoodDrift()
        self.spiral = DeathSpiral(*self.drifts)

    def update(self, observation: Observation) -> Sequence[Finding]:
        """Update the drifts, then the spiral."""
        for drift in self.drifts:
            drift.update(observation)
        return self.spiral.update(observation)

    def state(self) -> dict[str, Any]:
        """Return the states of all three."""
        return {"drifts": [drift.state() for drift in self.drifts], "spiral": self.spiral.state()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Restore all three."""
        restored = cls()
        for drift, saved in zip(restored.drifts, state["drifts"], strict=True):
            drift.load(saved)
        restored.spiral.load(state["spiral"])
        return restored


# The builder of each detector by its name, which can be updated alone.
BUILDERS: dict[str, Any] = {**DETECTORS, "death_spiral": SpiralWithDrifts}
