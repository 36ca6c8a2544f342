"""Responses grow out of their range, or hit the length limit."""

from monitor_server.detection.parts.departure import Size
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Severity

__all__ = ["LengthRise"]


class LengthRise(ShiftDetector):
    """Says when response length has doubled within 40 rows. Information: four real runs did so while their reward held.

    Together with another mechanism it is a warning (`JointDeparture`).
    """

    kind = "length_explosion"
    severity = Severity.INFO
    reads = ("length/mean",)
    size = Size(factor=2.0, errors=6.0, rows=2)
    what = "Response length"
