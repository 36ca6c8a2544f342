"""Entropy explosion: the policy dissolves into noise."""

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Severity
from monitor_server.detection.statistics.departure import Size

__all__ = ["EntropyExplosion"]


class EntropyExplosion(ShiftDetector):
    """Warns when token entropy has doubled and risen by half a nat within its own recent history.

    The rule is relative to the run, because healthy runs of instruct models have an entropy anywhere between 0.05 and
    1.5 nat. It does not detect slow rises, which are the subject of `LikelihoodDrift`.

    Reference:
        "Entropy eruption" in agent RL; arXiv 2512.04220, Figure 4.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(EntropyExplosion(), {"entropy/mean": [0.30, 0.31, 0.29, 0.30] * 3 + [1.5] * 4})
    [(14, 'entropy_explosion', 'warning')]
    """

    kind = "entropy_explosion"
    severity = Severity.WARNING
    reads = ("entropy/mean",)
    size = Size(factor=2.0, least=0.5, errors=4.0, rows=2)
    what = "Entropy"
