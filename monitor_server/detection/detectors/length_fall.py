"""Responses shrink to almost nothing."""

from monitor_server.detection.parts.departure import Size
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Severity

__all__ = ["LengthFall"]


class LengthFall(ShiftDetector):
    """Says when response length has fallen to 30 % of its baseline within 40 rows. Information: it may be a skill.

    Together with less tool use or more repetition while the reward holds it is `RewardHacking`.
    """

    kind = "length_collapse"
    severity = Severity.INFO
    reads = ("length/mean",)
    size = Size(factor=0.3, errors=6.0, rows=2)
    what = "Response length"
