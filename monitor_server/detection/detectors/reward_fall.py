"""The reward itself falls hard: the last to know, and still better than silence."""

from monitor_server.detection.parts.departure import Size
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Severity

__all__ = ["RewardFall"]


class RewardFall(ShiftDetector):
    """Warns when two rows of reward each lie below 30 % of the baseline, counted from the run's floor, beyond noise.

    The plain rule that people use, a fall of 20 %, warns in half of all healthy runs; the noise gate of four
    deviations and the depth bring that to one in sixty. It has no lead by its nature.
    """

    kind = "reward_fall"
    severity = Severity.WARNING
    reads = ("reward/mean",)
    size = Size(factor=0.3, least=0.02, errors=4.0, rows=2, each=True)
    what = "The reward"
