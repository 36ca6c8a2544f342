"""Entropy bursts: the policy dissolves into noise."""

from monitor_server.detection.parts.departure import Size
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Severity

__all__ = ["EntropyExplosion"]


class EntropyExplosion(ShiftDetector):
    """Warns when token entropy has doubled and risen by half a nat within its own recent history.

    Relative to the run, because healthy runs of instruct models live anywhere between 0.05 and 1.5 nat. In 195 real
    healthy logs it fires in one. It does not see slow rises: those are `LikelihoodDrift`.

    Reference:
        "Entropy eruption" in agent RL; arXiv 2512.04220, Figure 4.
    """

    kind = "entropy_explosion"
    severity = Severity.WARNING
    reads = ("entropy/mean",)
    size = Size(factor=2.0, least=0.5, errors=4.0, rows=2)
    what = "Entropy"
