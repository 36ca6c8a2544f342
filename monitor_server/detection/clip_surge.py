"""The share of clipped tokens surges: updates reach further than the trust region lets them."""

from monitor_server.detection.departure import Size
from monitor_server.detection.protocol import Severity
from monitor_server.detection.shift import ShiftDetector

__all__ = ["ClipSurge"]


class ClipSurge(ShiftDetector):
    """Warns when the clip share is five times its baseline and has risen by at least 1 token in 200.

    A trainer that makes one update per rollout has a clip share of 0 by construction, and this is silent there.
    """

    kind = "clip_surge"
    severity = Severity.WARNING
    reads = ("ratio/clip_frac",)
    size = Size(factor=5.0, least=0.005, errors=6.0, rows=3)
    what = "The share of clipped tokens"
