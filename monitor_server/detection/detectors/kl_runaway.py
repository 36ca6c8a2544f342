"""KL runaway: the policy leaves the neighbourhood of its reference."""

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Severity
from monitor_server.detection.statistics.departure import Size

__all__ = ["KlRunaway"]


class KlRunaway(ShiftDetector):
    """Warns when the KL divergence to the reference is ten times its baseline and a nat per token higher.

    KL grows in every healthy run, tenfold and more from its start near zero, so the absolute size decides: one nat per
    token is another language. With the k3 estimator one outlying token can have the same effect.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(KlRunaway(), {"kl/ref": [0.05, 0.06, 0.05, 0.06] * 3 + [4.0] * 5})
    [(14, 'kl_runaway', 'warning')]
    """

    kind = "kl_runaway"
    severity = Severity.WARNING
    reads = ("kl/ref",)
    size = Size(factor=10.0, least=1.0, errors=6.0, rows=5)
    what = "The KL divergence to the reference"
