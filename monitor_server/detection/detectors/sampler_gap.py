"""Sampler gap: from the first step on the sampler and the trainer disagree on the same tokens."""

from monitor_server.detection.base_classes.preflight import PreflightDetector
from monitor_server.detection.protocol import Severity

__all__ = ["SamplerGap"]


class SamplerGap(PreflightDetector):
    """Warns when sampler and trainer differ by more than 0.1 nat per token in each of the first three rows.

    No update has moved the policy far yet, so the two must agree up to rounding, which is far below this bound. A
    larger gap comes from another checkpoint, chat template, temperature or precision.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(SamplerGap(), {"mismatch/logprob_abs": [0.3, 0.32, 0.31]})
    [(2, 'sampler_gap', 'warning')]
    """

    kind = "sampler_gap"
    severity = Severity.WARNING
    reads = ("mismatch/logprob_abs",)
    rows = 3
    bound = 0.1
    rule = "mean |log-probability difference| > 0.1 nat"

    def _is_wrong(self, value: float) -> bool:
        return value > self.bound

    def _describe(self, value: float) -> str:
        return f"Sampler and trainer differ by {value:.3g} nat per token"
