"""Controls of a drift: the changes of response length and searches, and the displacement, since it began."""

from monitor_server.detection.detector_parts.accelerating_displacement import AcceleratingDisplacement
from monitor_server.detection.protocol import Observation
from monitor_server.detection.statistics.state import Stateful
from monitor_server.detection.statistics.streaming import Ema

__all__ = ["DriftControls"]

LENGTH, CALLS, VALID, CROSS = "length/mean", "tools/calls", "tools/valid_frac", "displacement/cross"
ALPHA = 0.1
LEAST_ROWS, STALE_ROWS = 8, 5
STALE_DISPLACEMENT_ROWS = 50  # held-out responses may be scored only every n-th step
NOT_OBSERVED = "not observed"


class DriftControls(Stateful):
    """Measures the other possible explanations of a drift: the control of Fig. 4.

    In the paper entropy accelerates while response length and the number of valid searches stay constant, so the
    displacement is not caused by either. The evidence of a drift contains their relative changes since it began,
    between averages with weight 0.1 for each row, for the reader to judge. They have no effect on the finding. The
    evidence also contains the displacement of held-out correct responses: its sum since the drift began, its newest
    mean of ten rows, and for how many blocks of ten rows it has accelerated.

    Reference:
        arXiv 2512.04220, Fig. 4, and Definitions 4.1 and 5.1.
    """

    def __init__(self) -> None:
        self.averages = {"length": Ema(ALPHA), "searches": Ema(ALPHA)}
        self.before: dict[str, float] = {}
        self.unobserved = {"length": 0, "searches": 0, "displacement": 0}
        self.displacement = 0.0
        self.displacements = 0  # rows with the displacement since the drift began
        self.acceleration = AcceleratingDisplacement()

    def update(self, observation: Observation) -> None:
        """Process one step."""
        get = observation.finite.get
        calls, valid = get(CALLS), get(VALID)
        searches = calls if calls is None or valid is None else calls * valid
        length, unobserved, averages = get(LENGTH), self.unobserved, self.averages
        unobserved["length"] = 0 if length is not None else unobserved["length"] + 1
        unobserved["searches"] = 0 if searches is not None else unobserved["searches"] + 1
        if length is not None:
            averages["length"].update(length)
        if searches is not None:
            averages["searches"].update(searches)
        cross = get(CROSS)
        if cross is None:
            unobserved["displacement"] = unobserved.get("displacement", 0) + 1  # older states do not have it
            if unobserved["displacement"] > STALE_DISPLACEMENT_ROWS:
                self.acceleration.restart()
        else:
            unobserved["displacement"] = 0
            self.displacement += cross
            self.displacements += 1
            self.acceleration.update(cross)

    def mark(self) -> None:
        """Record the present levels as the reference, because there is no drift now."""
        for name, average in self.averages.items():
            if average.value is not None and average.count >= LEAST_ROWS:
                self.before[name] = average.value
        self.displacement, self.displacements = 0.0, 0

    def restart(self) -> None:
        """Discard the levels, because they changed their meaning."""
        self.averages, self.before = {name: Ema(ALPHA) for name in self.averages}, {}
        self.displacement, self.displacements = 0.0, 0
        self.acceleration.restart()

    def take_back(self, rows: int, left: int) -> None:
        """Forget the levels, and the displacement so far; the reference stays."""
        super().take_back(rows, left)
        self.displacement, self.displacements = 0.0, 0

    def evidence(self) -> dict[str, float | str]:
        """Return the changes since the drift began.

        Returns:
            ``length_change`` and ``searches_change``, relative (0.1 is a tenth more), and ``displacement_sum`` in nats
            per token; "not observed" if the signal is missing, or was missing when the drift began. From the newest
            complete block of ten rows, ``displacement_rate`` in nats per token per step, and ``accelerating_blocks``,
            the number of consecutive blocks up to this one in which it was at most 0 and fell; 1 if it did not fall.
            Both are "not observed" after 50 rows without the signal.
        """
        rate = self.acceleration.newest
        return {
            "length_change": self._change("length"),
            "searches_change": self._change("searches"),
            "displacement_sum": self.displacement if self.displacements else NOT_OBSERVED,
            "displacement_rate": NOT_OBSERVED if rate is None else rate,
            "accelerating_blocks": NOT_OBSERVED if rate is None else self.acceleration.blocks,
        }

    def _change(self, name: str) -> float | str:
        """Return the relative change of a level since the drift began, or that it was not observed."""
        before, now = self.before.get(name), self.averages[name].value
        is_known = self.averages[name].count >= LEAST_ROWS and self.unobserved[name] <= STALE_ROWS
        if not before or now is None or not is_known:
            return NOT_OBSERVED
        return now / before - 1.0
