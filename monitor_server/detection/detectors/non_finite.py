"""Non-finite values: NaN or Inf in place of a number."""

from collections.abc import Sequence
from math import isfinite

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.protocol import Finding, Observation, Severity

__all__ = ["NonFinite"]

COUNTER = "finite/bad_values"
# A non-finite number in these means that this update or the next one is destroyed. A NaN elsewhere can be an empty
# mean, such as the likelihood of correct responses in a batch without one.
VITAL = ("grad/norm", "loss/policy", "loss/llds", "reward/mean", "kl/ref", "kl/old", "entropy/mean")


class NonFinite(StreamDetector):
    """Reports a critical finding as soon as the loss, the gradient norm or another vital number is NaN or infinite.

    In most runs it cannot be predicted. The rule is not statistical: its only false alarms are logging mistakes. The
    finding holds while the numbers are bad and for another 4 rows, because values in an optimiser do not disappear at
    once.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(NonFinite(), {"grad/norm": [0.5, 0.6, float("nan"), 0.5]})
    [(2, 'non_finite', 'critical')]
    """

    kind = "non_finite"
    severity = Severity.CRITICAL
    reads = VITAL
    HELD_ROWS = 5

    def __init__(self) -> None:
        super().__init__()
        self.first: int | None = None
        self.names: list[str] = []
        self.left = 0

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        signals = observation.signals
        get = signals.get
        bad = [name for name in VITAL if not isfinite(get(name, 0.0))]
        if not bad and signals.get(COUNTER, 0.0) > 0.0:
            bad = [COUNTER]
        if bad:
            self.first = observation.step if self.first is None else self.first
            self.names, self.left = bad, self.HELD_ROWS
        elif self.left:
            self.left -= 1
        if not self.left:
            self.first = None
            return ()
        return [self._build_finding(observation, now=bool(bad))]

    def _build_finding(self, observation: Observation, *, now: bool) -> Finding:
        return self._finding(
            observation,
            f"{self._what(now=now)} not finite, first at step {self.first}.",
            signal=self.names[0],
            baseline=None,
            window=1,
            statistic=float(len(self.names)),
            threshold=0.0,
            missing=[],
            values={name: observation.signals[name] for name in self.names if name in observation.signals},
            onset=[self.first, self.first],
            arithmetic="any of the vital signals is NaN or infinite",
        )

    def _what(self, *, now: bool) -> str:
        if self.names == [COUNTER]:
            return f"Token values {'are' if now else 'were'}"
        verb = ("are" if now else "were") if len(self.names) > 1 else ("is" if now else "was")
        return f"{', '.join(self.names)} {verb}"

    def _resume(self, step: int) -> None:
        if self.first is not None and step <= self.first:
            self.first, self.names, self.left = None, [], 0
