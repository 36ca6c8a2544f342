"""Router collapse: a mixture of experts sends everything to a few of them."""

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Severity
from monitor_server.detection.statistics.departure import Size

__all__ = ["RouterCollapse"]


class RouterCollapse(ShiftDetector):
    """Warns when the entropy of the router's load falls to 80 % of its baseline within 40 rows.

    The signal is opt-in, because it needs module hooks. In pre-training it moves thousands of steps before the loss. It
    has not been measured here.

    Reference:
        Mechanism-driven monitors, arXiv 2606.28116.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(RouterCollapse(), {"moe/load_entropy": [2.0, 2.1, 1.9, 2.0] * 3 + [0.5] * 4})
    [(14, 'router_collapse', 'warning')]
    """

    kind = "router_collapse"
    severity = Severity.WARNING
    reads = ("moe/load_entropy",)
    size = Size(factor=0.8, errors=6.0, rows=3)
    what = "The entropy of the router load"
