"""Ratio tail: some tokens have many times the probability that they had when they were sampled."""

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Severity
from monitor_server.detection.statistics.departure import Size

__all__ = ["RatioTail"]


class RatioTail(ShiftDetector):
    """Warns when the tail of the likelihood ratios is three times its baseline, and 1 higher, in four rows of seven.

    Spikes of up to three rows follow every unlucky batch and are ignored. One update per rollout gives a ratio of 1 by
    construction, and the detector is silent there.

    Reference:
        arXiv 2512.04220, section 7: it recommends to monitor spikes in likelihood ratios; ACPO.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(RatioTail(), {"ratio/p999": [1.3, 1.2, 1.4, 1.3] * 4 + [9.0] * 5})
    [(19, 'ratio_tail', 'warning')]
    """

    kind = "ratio_tail"
    severity = Severity.WARNING
    reads = ("ratio/p999", "ratio/max")
    size = Size(factor=3.0, least=1.0, errors=6.0, rows=7)
    what = "The tail of the likelihood ratios"
