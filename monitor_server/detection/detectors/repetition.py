"""Repetition: responses repeat themselves."""

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Severity
from monitor_server.detection.statistics.departure import Size

__all__ = ["Repetition"]


class Repetition(ShiftDetector):
    """Warns when n-gram repetition has doubled and risen by a tenth within 40 rows.

    Template collapse and reward hacking have this effect while entropy and reward look normal.

    Reference:
        RAGEN-2, arXiv 2604.06268.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(Repetition(), {"text/repetition": [0.10, 0.11, 0.09, 0.10] * 3 + [0.6] * 4})
    [(14, 'repetition', 'warning')]
    """

    kind = "repetition"
    severity = Severity.WARNING
    reads = ("text/repetition",)
    size = Size(factor=2.0, least=0.1, errors=6.0, rows=3)
    what = "Repetition"
