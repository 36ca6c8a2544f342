"""Mismatch growth: sampler and trainer drift apart before the ratios show it."""

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Severity
from monitor_server.detection.statistics.departure import Size

__all__ = ["MismatchGrowth"]


class MismatchGrowth(ShiftDetector):
    """Warns when the divergence between sampler and trainer has tripled and risen by 0.02 nat per token.

    If inference and training engines differ in precision, it grows before gradients explode, most of all in mixtures of
    experts. `SamplerMismatch` needs no baseline and reports when the damage is done.

    Reference:
        Liu and Li, "When Speed Kills Stability" (2025); arXiv 2602.01103.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(MismatchGrowth(), {"mismatch/kl": [0.002, 0.003, 0.002, 0.003] * 3 + [0.1] * 4})
    [(14, 'mismatch_growth', 'warning')]
    """

    kind = "mismatch_growth"
    severity = Severity.WARNING
    reads = ("mismatch/kl",)
    size = Size(factor=3.0, least=0.02, errors=6.0, rows=3)
    what = "The divergence of sampler and trainer"
