"""The tail of the importance ratios lifts off: some tokens are worth many times what they were."""

from monitor_server.detection.parts.departure import Size
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Severity

__all__ = ["RatioTail"]


class RatioTail(ShiftDetector):
    """Warns when the tail of the likelihood ratios is three times its baseline, and 1 higher, in four rows of seven.

    Spikes of up to three rows follow every unlucky batch and are left alone. One update per rollout gives 1 by
    construction, and this is silent there.

    Reference:
        arXiv 2512.04220, section 7: spikes in likelihood ratios are to be watched; ACPO.
    """

    kind = "ratio_tail"
    severity = Severity.WARNING
    reads = ("ratio/p999", "ratio/max")
    size = Size(factor=3.0, least=1.0, errors=6.0, rows=7)
    what = "The tail of the likelihood ratios"
