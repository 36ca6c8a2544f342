"""The policy runs away from its reference."""

from monitor_server.detection.parts.departure import Size
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Severity

__all__ = ["KlRunaway"]


class KlRunaway(ShiftDetector):
    """Warns when the KL divergence to the reference is ten times its baseline and a nat per token higher.

    KL grows in every healthy run, tenfold and more from its start near zero, so size decides: a nat per token is
    another language. In 137 real logs that hold a KL no healthy one fires. With the k3 estimator one outlying token
    can do the same; the estimator is named in the evidence if the trainer sends it.
    """

    kind = "kl_runaway"
    severity = Severity.WARNING
    reads = ("kl/ref",)
    size = Size(factor=10.0, least=1.0, errors=6.0, rows=3)
    what = "The KL divergence to the reference"
