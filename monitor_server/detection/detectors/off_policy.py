"""Updates are made on samples that the policy would no longer give."""

from collections.abc import Sequence

from monitor_server.detection.parts.base import StreamDetector, finite
from monitor_server.detection.protocol import Finding, Observation, Severity

__all__ = ["OffPolicy"]

SHARE = "ratio/ess_frac"


class OffPolicy(StreamDetector):
    """Warns when the effective sample size of the importance weights is under half of the sample, in two rows.

    ESS / n = (Σ w)² / (n Σ w²), 1 when all ratios are equal. Under one half the gradient is carried by a minority of
    tokens. No baseline is needed. It clears after 5 rows above 0.7. One update per rollout gives 1 by construction.

    Reference:
        VCPO, arXiv 2602.17616: collapse is predicted by the effective sample size and unstable gradient norms.
    """

    kind = "off_policy_blowup"
    severity = Severity.WARNING
    reads = (SHARE,)
    BOUND, CLEAR, ROWS, QUIET_ROWS = 0.5, 0.7, 2, 5

    def __init__(self) -> None:
        super().__init__()
        self.below = 0
        self.quiet = 0
        self.opened: int | None = None

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        share = finite(observation.signals, SHARE)
        if share is None or share <= 0.0:
            return ()
        self.below = self.below + 1 if share < self.BOUND else 0
        self.quiet = self.quiet + 1 if share > self.CLEAR else 0
        if self.below >= self.ROWS and self.opened is None:
            self.opened = observation.step
        elif self.quiet >= self.QUIET_ROWS:
            self.opened = None
        if self.opened is None:
            return ()
        return [
            self._finding(
                observation,
                f"The effective sample size is {share:.0%} of the tokens, below half since step {self.opened}.",
                signal=SHARE,
                baseline=1.0,
                window=self.ROWS,
                statistic=1.0 / share,
                threshold=1.0 / self.BOUND,
                onset=[self.opened, self.opened],
                arithmetic="n / ESS > 2 in two rows",
            )
        ]

    def _resume(self, step: int) -> None:
        if self.opened is not None and step <= self.opened:
            self.opened, self.below = None, 0
