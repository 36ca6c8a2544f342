"""Sampler and trainer drift apart, before the ratios show it."""

from monitor_server.detection.parts.departure import Size
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Severity

__all__ = ["MismatchGrowth"]


class MismatchGrowth(ShiftDetector):
    """Warns when the divergence between sampler and trainer has tripled and risen by 0.02 nat per token.

    Grows before gradients explode where inference and training engines differ in precision, most of all in mixtures
    of experts. `SamplerMismatch` needs no baseline and speaks when the damage is done.

    Reference:
        Liu and Li, "When Speed Kills Stability" (2025); arXiv 2602.01103.
    """

    kind = "mismatch_growth"
    severity = Severity.WARNING
    reads = ("mismatch/kl",)
    size = Size(factor=3.0, least=0.02, errors=6.0, rows=3)
    what = "The divergence of sampler and trainer"
