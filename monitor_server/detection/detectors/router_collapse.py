"""A mixture of experts routes everything to a few of them."""

from monitor_server.detection.parts.departure import Size
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Severity

__all__ = ["RouterCollapse"]


class RouterCollapse(ShiftDetector):
    """Warns when the entropy of the router's load falls to 80 % of its baseline within 40 rows.

    Opt-in: needs module hooks. Moves thousands of steps before the loss in pre-training; not measured here.

    Reference:
        Mechanism-driven monitors, arXiv 2606.28116.
    """

    kind = "router_collapse"
    severity = Severity.WARNING
    reads = ("moe/load_entropy",)
    size = Size(factor=0.8, errors=6.0, rows=3)
    what = "The entropy of the router load"
