"""Truncation: responses are cut at the length limit, so that their ends, which include the answers, are lost."""

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Severity
from monitor_server.detection.statistics.departure import Size

__all__ = ["Truncation"]


class Truncation(ShiftDetector):
    """Informs when the share of truncated responses has risen by three in ten within 40 rows, in two rows of three.

    It is information, because models that learn to reason do this and recover. Together with another mechanism it is a
    warning (`JointDeparture`).

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(Truncation(), {"length/truncated_frac": [0.05, 0.06, 0.04, 0.05] * 3 + [0.7] * 4})
    [(14, 'truncation', 'info')]
    """

    kind = "truncation"
    severity = Severity.INFO
    reads = ("length/truncated_frac",)
    size = Size(least=0.3, errors=6.0, rows=3, noise=0.02)
    what = "The share of truncated responses"
