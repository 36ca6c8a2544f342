"""Gradients explode."""

from monitor_server.detection.parts.departure import Size
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Observation, Severity

__all__ = ["GradientExplosion"]


class GradientExplosion(ShiftDetector):
    """Warns when the gradient norm stands five times above everything in 40 rows: five of nine, and the last four.

    Spikes are normal: a rule of three deviations warns in 60 % of healthy runs, and ten times the median in a fifth,
    because batches of dead groups pull the median towards zero. A lasting level above the largest spike is another
    matter, and spikes of up to three rows do not make one, unless they touch. Needs the norm before clipping; after
    it, the norm is a constant.
    """

    kind = "gradient_explosion"
    severity = Severity.WARNING
    reads = ("grad/norm",)
    size = Size(factor=5.0, errors=6.0, rows=9)
    what = "The gradient norm"

    def _confirmed(self, observation: Observation) -> bool:  # noqa: ARG002 - the values are enough
        """Tell whether the level and every newest row are above five times the largest of the baseline's rows."""
        values = list(self.departure.values)
        before, newest = values[: -(self.size.rows + 1)], values[-LASTING:]
        level = self.departure.level
        if level is None or len(before) < LEAST:
            return False
        return min(level, *newest) > self.size.factor * max(before)


LEAST = 8  # a largest of fewer is no bound
LASTING = 4  # rows on end; spikes take up to three
