"""Impossible likelihood: a mean log-probability is positive or exactly 0, which is impossible."""

from monitor_server.detection.base_classes.preflight import PreflightDetector
from monitor_server.detection.protocol import Severity

__all__ = ["ImpossibleLikelihood"]


class ImpossibleLikelihood(PreflightDetector):
    """Warns when the mean log-probability of a token is above 0, or exactly 0, in each of the first three rows.

    A log-probability is at most 0. A positive one is a likelihood that was not logged as a logarithm, a negative
    log-likelihood with the wrong sign, or the result of a mask that divides by the wrong count. Exactly 0 would need
    probability 1 of every token of every response; it is an array of zeros. Every detector of the likelihood side would
    misread it.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(ImpossibleLikelihood(), {"likelihood/correct": [0.4, 0.42, 0.41]})
    [(2, 'impossible_likelihood', 'warning')]
    """

    kind = "impossible_likelihood"
    severity = Severity.WARNING
    reads = ("likelihood/correct", "likelihood/incorrect")
    rows = 3
    bound = 1e-6
    rule = "mean log-probability > 0, or exactly 0,"

    def _is_wrong(self, value: float) -> bool:
        return value > self.bound or value == 0.0

    def _describe(self, value: float) -> str:
        impossible = "exactly 0" if value == 0.0 else "above 0"
        return f"The mean log-probability of a token is {value:.3g}, and it cannot be {impossible}"
