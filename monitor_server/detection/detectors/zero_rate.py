"""Zero rate: the learning rate is 0 and stays 0, so the policy is not trained."""

from monitor_server.detection.base_classes.preflight import PreflightDetector
from monitor_server.detection.protocol import Severity

__all__ = ["ZeroRate"]


class ZeroRate(PreflightDetector):
    """Informs when the learning rate is 0 in each of the first ten rows.

    A schedule that climbs from 0 leaves it after the first row. One that stays at 0 has no more steps to climb, reads a
    wrong total of steps, or is multiplied by a 0 elsewhere. It is information, because console logs round a rate of
    1e-6 to 0.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(ZeroRate(), {"lr": [0.0] * 10})
    [(9, 'zero_rate', 'info')]
    """

    kind = "zero_rate"
    severity = Severity.INFO
    reads = ("lr",)
    rows = 10
    bound = 0.0
    rule = "learning rate = 0"

    def _is_wrong(self, value: float) -> bool:
        return value <= self.bound

    def _describe(self, value: float) -> str:  # noqa: ARG002 - the value is the bound
        return "The learning rate is 0"
