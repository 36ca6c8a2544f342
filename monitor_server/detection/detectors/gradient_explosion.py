"""Gradient explosion: the gradient norm stays at a multiple of all earlier norms."""

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Observation, Severity
from monitor_server.detection.statistics.departure import Size

__all__ = ["GradientExplosion"]


class GradientExplosion(ShiftDetector):
    """Warns when the gradient norm is five times above all of 40 rows: in five rows of nine, and in the last four.

    Spikes are normal. A rule of three deviations warns in half of the healthy runs, and rules on the median fail too,
    because batches of groups without variance pull the median towards zero. A lasting level above the largest spike is
    different, and spikes of up to three rows do not reach it, unless they touch. The norm before clipping is needed;
    after clipping it is a constant.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(GradientExplosion(), {"grad/norm": [0.5, 0.6, 0.4, 0.5] * 5 + [9.0] * 6})
    [(24, 'gradient_explosion', 'warning')]
    """

    kind = "gradient_explosion"
    severity = Severity.WARNING
    reads = ("grad/norm",)
    size = Size(factor=5.0, errors=6.0, rows=9)
    what = "The gradient norm"

    def _is_confirmed(self, observation: Observation) -> bool:  # noqa: ARG002 - the values are enough
        """Return whether the level and every newest row are above five times the largest row of the baseline."""
        values = list(self.departure.values)
        before, newest = values[: -(self.size.rows + 1)], values[-LASTING:]
        level = self.departure.level
        if level is None or len(before) < LEAST:
            return False
        return min(level, *newest) > self.size.factor * max(before)


LEAST = 8  # rows; the largest of fewer is not a bound
LASTING = 4  # successive rows; spikes take up to three
