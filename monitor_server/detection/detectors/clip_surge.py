"""Clip surge: the share of clipped tokens rises because updates reach beyond the trust region."""

from collections.abc import Sequence

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.departure import Departure, Size

__all__ = ["ClipSurge"]


class ClipSurge(ShiftDetector):
    """Warns when the clip share is five times its baseline and at least 1 token in 200 higher.

    A trainer that makes one update per rollout has a clip share of 0 by construction, and the detector is silent there.
    While the learning rate is more than a tenth above its own baseline, as in a warm-up, larger steps are intended and
    the finding is suppressed.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> share = [0.001, 0.0012, 0.0008, 0.001] * 3 + [0.02] * 4
    >>> episodes(ClipSurge(), {"ratio/clip_frac": share})
    [(14, 'clip_surge', 'warning')]
    """

    kind = "clip_surge"
    severity = Severity.WARNING
    reads = ("ratio/clip_frac",)
    skips_rows_without = False  # every row moves the baseline of the learning rate
    size = Size(factor=5.0, least=0.005, errors=6.0, rows=3)
    what = "The share of clipped tokens"

    def __init__(self) -> None:
        super().__init__()
        self.learning_rate = Departure(Size(factor=1.1, errors=0.0, rarity=1.0))

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        rate = observation.finite.get("lr")
        if rate is not None:
            self.learning_rate.update(rate)
        return super()._observe(observation)

    def _is_confirmed(self, observation: Observation) -> bool:
        """Return whether the clip share rose without the learning rate."""
        return "lr" not in observation.signals or not self.learning_rate.departs
