"""Attention degenerates: query-key products lose their rank."""

from monitor_server.detection.parts.departure import Size
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Severity

__all__ = ["AttentionCollapse"]


class AttentionCollapse(ShiftDetector):
    """Warns when the spectral entropy of query-key products falls to 80 % of its baseline within 40 rows.

    Opt-in: needs module hooks. Moves thousands of steps before the loss in pre-training; not measured here.

    Reference:
        Mechanism-driven monitors, arXiv 2606.28116.
    """

    kind = "attention_collapse"
    severity = Severity.WARNING
    reads = ("qk/spectral_entropy",)
    size = Size(factor=0.8, errors=6.0, rows=3)
    what = "The spectral entropy of attention"
