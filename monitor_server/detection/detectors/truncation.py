"""Responses are cut at the length limit: their ends, answers included, are never seen."""

from monitor_server.detection.parts.departure import Size
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Severity

__all__ = ["Truncation"]


class Truncation(ShiftDetector):
    """Says when the share of truncated responses has risen by three in ten within 40 rows, in two rows of three.

    Information: models that learn to think do so and recover. Together with another mechanism it is a warning
    (`JointDeparture`).
    """

    kind = "truncation"
    severity = Severity.INFO
    reads = ("length/truncated_frac",)
    size = Size(least=0.3, errors=6.0, rows=3, noise=0.02)
    what = "The share of truncated responses"
