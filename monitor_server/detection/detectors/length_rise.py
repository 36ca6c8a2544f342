"""Length explosion: responses grow out of their range, or reach the length limit."""

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Severity
from monitor_server.detection.statistics.departure import Size

__all__ = ["LengthRise"]


class LengthRise(ShiftDetector):
    """Informs when response length has doubled within 40 rows.

    It is information, because four real runs did so while their reward held. Together with another mechanism it is a
    warning (`JointDeparture`).

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(LengthRise(), {"length/mean": [200.0, 210.0, 190.0, 200.0] * 3 + [900.0] * 4})
    [(14, 'length_explosion', 'info')]
    """

    kind = "length_explosion"
    severity = Severity.INFO
    reads = ("length/mean",)
    size = Size(factor=2.0, errors=6.0, rows=2)
    what = "Response length"
