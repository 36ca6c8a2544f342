"""Off-policy updates: the samples come from a policy that differs too much from the present one."""

from collections.abc import Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.protocol import Finding, Observation, Severity

__all__ = ["OffPolicy"]

SHARE = "ratio/ess_frac"


class OffPolicy(StreamDetector):
    """Warns when the effective sample size of the importance weights is under half of the sample, in two rows.

    ESS / n = (Σ w)² / (n Σ w²), which is 1 when all ratios are equal. Under one half, a minority of tokens determines
    the gradient. No baseline is needed. The finding ends after 5 rows above 0.7. One update per rollout gives 1 by
    construction.

    Reference:
        VCPO, arXiv 2602.17616: the effective sample size and unstable gradient norms predict collapse.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(OffPolicy(), {"ratio/ess_frac": [0.95, 0.94, 0.3, 0.3]})
    [(3, 'off_policy_blowup', 'warning')]
    """

    kind = "off_policy_blowup"
    severity = Severity.WARNING
    reads = (SHARE,)
    skips_rows_without = True
    BOUND, CLEAR, ROWS, QUIET_ROWS = 0.5, 0.7, 2, 5

    def __init__(self) -> None:
        super().__init__()
        self.below = 0
        self.quiet = 0
        self.opened: int | None = None

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        share = observation.finite.get(SHARE)
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
        if self._replaces_rows(step) and (self.opened is None or step <= self.opened):
            self.opened, self.below = None, 0
