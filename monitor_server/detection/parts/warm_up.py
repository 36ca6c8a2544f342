"""The first rows of a run while its learning rate still climbs: what moves there is the start, not a drift."""

from monitor_server.detection.parts.base import finite
from monitor_server.detection.parts.stateful import Stateful
from monitor_server.detection.protocol import Observation

__all__ = ["WarmUp"]

RATE = "lr"
ROWS = 12
CLIMB = 1.0001  # a schedule's rounding is no climb


class WarmUp(Stateful):
    """Tells whether a row belongs to the warm-up: one of the first 12, at a learning rate higher than any before.

    Twelve, and not the whole climb: entropy settles within the first rows, and runs have died while the rate climbed.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.highest = 0.0
        self.climbs = False

    def update(self, observation: Observation) -> bool:
        """Take one step and tell."""
        self.rows += 1
        rate = finite(observation.signals, RATE)
        if rate is not None:
            self.climbs = rate > CLIMB * self.highest
            self.highest = max(self.highest, rate)
        return self.climbs and self.rows <= ROWS
