"""Frozen ratio: the old policy is the new one, so that ratios, clipping and the divergence never act."""

from monitor_server.detection.base_classes.preflight import PreflightDetector
from monitor_server.detection.protocol import Severity

__all__ = ["FrozenRatio"]


class FrozenRatio(PreflightDetector):
    """Informs when the divergence of the new from the old policy is exactly 0 in each of the first ten rows.

    With one update per rollout this is so by construction. With several updates, the old log-probabilities are computed
    after the update, or are the new ones, and then nothing limits an update.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(FrozenRatio(), {"kl/old": [0.0] * 10})
    [(9, 'frozen_ratio', 'info')]
    """

    kind = "frozen_ratio"
    severity = Severity.INFO
    reads = ("kl/old",)
    rows = 10
    bound = 0.0
    rule = "divergence from the old policy = 0"

    def _is_wrong(self, value: float) -> bool:
        return value == self.bound

    def _describe(self, value: float) -> str:  # noqa: ARG002 - the value is the bound
        return "The old policy is the new one: its divergence is exactly 0"
