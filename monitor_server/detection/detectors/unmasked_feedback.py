"""Unmasked feedback: tools answer, but the mask of action tokens has no gap, so feedback is trained as if sampled."""

from collections.abc import Mapping

from monitor_server.detection.base_classes.preflight import PreflightDetector
from monitor_server.detection.protocol import Severity

__all__ = ["UnmaskedFeedback"]


class UnmaskedFeedback(PreflightDetector):
    """Warns when no response with an answered call has a gap in its mask, in each of the first three rows.

    A tool's answer lies between two actions, and the mask leaves it out. If the mask covers it, the two actions become
    one, and the policy is trained to predict the tool's text. A response that ends at its call has one action too, so
    every such response must be without a gap. A row counts only if at least a quarter of its responses call a tool,
    because the few calls of an untrained policy may all be such endings.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> rows = {"tools/unbroken_frac": [1.0] * 3, "tools/none_frac": [0.1] * 3}
    >>> episodes(UnmaskedFeedback(), rows)
    [(2, 'unmasked_feedback', 'warning')]
    """

    kind = "unmasked_feedback"
    severity = Severity.WARNING
    reads = ("tools/unbroken_frac", "tools/none_frac")
    rows = 3
    bound = 1.0
    rule = "share of responses without a gap in the mask, of those with an answered call, = 1"
    # Of the responses, without a call.
    _MOST_WITHOUT_CALL = 0.75

    def _read(self, finite: Mapping[str, float]) -> tuple[str, float] | None:
        unbroken, without_call = (finite.get(name) for name in self.reads)
        if unbroken is None or without_call is None or without_call > self._MOST_WITHOUT_CALL:
            return None
        return self.reads[0], unbroken

    def _is_wrong(self, value: float) -> bool:
        return value >= self.bound

    def _describe(self, value: float) -> str:  # noqa: ARG002 - the value is the bound
        return "Tools answered, but no response has a gap in its mask: the mask counts the tools' feedback as actions"
