"""The first rows of a run, while its learning rate still climbs: movement in them is the start, and not a drift."""

from monitor_server.detection.protocol import Observation
from monitor_server.detection.statistics.state import Stateful

__all__ = ["WarmUp"]

RATE = "lr"
ROWS = 12
CLIMB = 1.0001  # the rounding of a schedule is not a climb


class WarmUp(Stateful):
    """Decides whether a row belongs to the warm-up: one of the first 12, at a learning rate higher than any before.

    The limit is 12 rows and not the whole climb, because entropy settles within the first rows, and because runs have
    died while the rate was still climbing.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.highest = 0.0
        self.climbs = False

    def update(self, observation: Observation) -> bool:
        """Process one step and return whether it belongs to the warm-up."""
        self.rows += 1
        rate = observation.finite.get(RATE)
        if rate is not None:
            highest = self.highest
            self.climbs = rate > CLIMB * highest
            if rate > highest:
                self.highest = rate
        return self.climbs and self.rows <= ROWS

    def take_back(self, rows: int, left: int) -> None:  # noqa: ARG002 - the rows that are left decide
        """Count the remaining rows; within the warm-up the next rate is the highest."""
        self.rows = min(self.rows, left)
        if self.rows < ROWS:
            self.highest = 0.0

    @property
    def lasts(self) -> bool:
        """Whether the newest row belongs to the warm-up."""
        return self.climbs and self.rows <= ROWS
