"""The share of clipped tokens surges: updates reach further than the trust region lets them."""

from collections.abc import Sequence

from monitor_server.detection.parts.base import finite
from monitor_server.detection.parts.departure import Departure, Size
from monitor_server.detection.parts.shift import ShiftDetector
from monitor_server.detection.protocol import Finding, Observation, Severity

__all__ = ["ClipSurge"]


class ClipSurge(ShiftDetector):
    """Warns when the clip share is five times its baseline and has risen by at least 1 token in 200.

    A trainer that makes one update per rollout has a clip share of 0 by construction, and this is silent there. While
    the learning rate is more than a tenth above its own baseline, as in a warm-up, larger steps are meant and the
    finding is held back.
    """

    kind = "clip_surge"
    severity = Severity.WARNING
    reads = ("ratio/clip_frac",)
    size = Size(factor=5.0, least=0.005, errors=6.0, rows=3)
    what = "The share of clipped tokens"

    def __init__(self) -> None:
        super().__init__()
        self.learning_rate = Departure(Size(factor=1.1, errors=0.0))

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        rate = finite(observation.signals, "lr")
        if rate is not None:
            self.learning_rate.update(rate)
        return super()._observe(observation)

    def _confirmed(self, observation: Observation) -> bool:
        """Tell whether the clip share rose without the learning rate."""
        return "lr" not in observation.signals or not self.learning_rate.departs
