"""Reward fall: the reward itself drops. This signal moves last, but is better than no alarm."""

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Severity
from monitor_server.detection.statistics.departure import Size

__all__ = ["RewardFall"]


class RewardFall(ShiftDetector):
    """Warns when two rows of reward each lie below 30 % of the baseline, counted from the run's floor, beyond noise.

    A common simple rule, a fall of 20 %, warns in half of all healthy runs. The depth and the noise limit of four
    deviations reduce that to one in sixty. By its nature the rule has no lead.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(RewardFall(), {"reward/mean": [0.60, 0.62, 0.58, 0.60] * 3 + [0.02] * 4})
    [(15, 'reward_fall', 'warning')]
    """

    kind = "reward_fall"
    severity = Severity.WARNING
    reads = ("reward/mean",)
    size = Size(factor=0.3, least=0.02, errors=4.0, rows=2, each=True, rarity=3e-4)
    what = "The reward"
