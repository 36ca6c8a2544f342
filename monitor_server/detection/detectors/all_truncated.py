"""All truncated: nearly every response is cut at the length limit from the first step on."""

from monitor_server.detection.base_classes.preflight import PreflightDetector
from monitor_server.detection.protocol import Severity

__all__ = ["AllTruncated"]


class AllTruncated(PreflightDetector):
    """Informs when at least 95 % of the responses are truncated in each of the first five rows.

    The grader then never receives the ends of the responses, which include the answers. It is information, because some
    tasks give rewards before the end, and the policy still learns.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(AllTruncated(), {"length/truncated_frac": [1.0, 0.98, 1.0, 1.0, 0.99]})
    [(4, 'all_truncated', 'info')]
    """

    kind = "all_truncated"
    severity = Severity.INFO
    reads = ("length/truncated_frac",)
    rows = 5
    bound = 0.95
    rule = "share of truncated responses >= 0.95"

    def _is_wrong(self, value: float) -> bool:
        return value >= self.bound

    def _describe(self, value: float) -> str:
        return f"{value:.0%} of the responses are cut at the length limit"
