"""Attention collapse: query-key products lose their rank."""

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Severity
from monitor_server.detection.statistics.departure import Size

__all__ = ["AttentionCollapse"]


class AttentionCollapse(ShiftDetector):
    """Warns when the spectral entropy of query-key products falls to 80 % of its baseline within 40 rows.

    The signal is opt-in, because it needs module hooks. In pre-training it moves thousands of steps before the loss. It
    has not been measured here.

    Reference:
        Mechanism-driven monitors, arXiv 2606.28116.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> entropy = [3.0, 3.1, 2.9, 3.0] * 3 + [1.0] * 4
    >>> episodes(AttentionCollapse(), {"qk/spectral_entropy": entropy})
    [(14, 'attention_collapse', 'warning')]
    """

    kind = "attention_collapse"
    severity = Severity.WARNING
    reads = ("qk/spectral_entropy",)
    size = Size(factor=0.8, errors=6.0, rows=3)
    what = "The spectral entropy of attention"
