"""Gradients explode."""

from monitor_server.detection.departure import Size
from monitor_server.detection.protocol import Observation, Severity
from monitor_server.detection.shift import ShiftDetector

__all__ = ["GradientExplosion"]


class GradientExplosion(ShiftDetector):
    """Warns when the gradient norm stands five times above everything in its last 40 rows, in five of nine.

    Spikes are normal: a rule of three deviations warns in 60 % of healthy runs, and ten times the median in a fifth,
    because batches of dead groups pull the median towards zero. A lasting level above the largest spike is another
    matter, and two spikes of two rows beside each other do not make one. Needs the norm before clipping; after it, the
    norm is a constant.
    """

    kind = "gradient_explosion"
    severity = Severity.WARNING
    reads = ("grad/norm",)
    size = Size(factor=5.0, errors=6.0, rows=9)
    what = "The gradient norm"

    def _confirmed(self, observation: Observation) -> bool:  # noqa: ARG002 - the values are enough
        """Tell whether the level is above five times the largest of the baseline's rows."""
        before = list(self.departure.values)[: -(self.size.rows + 1)]
        level = self.departure.level
        return level is not None and len(before) >= LEAST and level > self.size.factor * max(before)


LEAST = 8  # a largest of fewer is no bound
