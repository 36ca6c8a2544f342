"""Length collapse: responses shrink to almost nothing."""

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Severity
from monitor_server.detection.statistics.departure import Size

__all__ = ["LengthFall"]


class LengthFall(ShiftDetector):
    """Informs when response length has fallen to 30 % of its baseline within 40 rows.

    It is information, because shorter responses may be a skill. Together with less tool use or more repetition while
    the reward holds it is `RewardHacking`.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(LengthFall(), {"length/mean": [200.0, 210.0, 190.0, 200.0] * 3 + [9.0] * 4})
    [(14, 'length_collapse', 'info')]
    """

    kind = "length_collapse"
    severity = Severity.INFO
    reads = ("length/mean",)
    size = Size(factor=0.3, errors=6.0, rows=2)
    what = "Response length"
