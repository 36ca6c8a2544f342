"""Responses repeat themselves: language degenerates."""

from monitor_server.detection.parts.departure import Size
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Severity

__all__ = ["Repetition"]


class Repetition(ShiftDetector):
    """Warns when n-gram repetition has doubled and risen by a tenth within 40 rows.

    Template collapse and reward hacking look like this while entropy and reward look well.

    Reference:
        RAGEN-2, arXiv 2604.06268.
    """

    kind = "repetition"
    severity = Severity.WARNING
    reads = ("text/repetition",)
    size = Size(factor=2.0, least=0.1, errors=6.0, rows=3)
    what = "Repetition"
