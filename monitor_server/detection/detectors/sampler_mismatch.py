"""Sampler mismatch: the sampler and the trainer compute different probabilities for the same tokens."""

import math
from collections.abc import Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.protocol import Finding, Observation, Severity

__all__ = ["SamplerMismatch"]

RATIO = "mismatch/ratio"


class SamplerMismatch(StreamDetector):
    """Warns when the mean importance ratio of trainer to sampler leaves (½, 2).

    Its expectation is 1 for every policy: E_{y~q}[p(y) / q(y)] = 1. A mean below one half means that most sampled
    tokens have become improbable under the trained weights, because of a precision gap that amplifies itself or because
    of stale samples. No baseline is needed, so the rule applies from the first row. The finding ends after 5 rows
    inside (0.7, 1.4).

    Reference:
        Liu and Li, "When Speed Kills Stability" (2025); VCPO, arXiv 2602.17616.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(SamplerMismatch(), {"mismatch/ratio": [1.0, 0.98, 0.4]})
    [(2, 'sampler_mismatch', 'warning')]
    """

    kind = "sampler_mismatch"
    severity = Severity.WARNING
    reads = (RATIO,)
    skips_rows_without = True
    BOUND, CLEAR, QUIET_ROWS = math.log(2.0), math.log(1.4), 5

    def __init__(self) -> None:
        super().__init__()
        self.opened: int | None = None
        self.quiet = 0

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        ratio = observation.finite.get(RATIO)
        if ratio is None or ratio <= 0.0:
            return ()
        gap = abs(math.log(ratio))
        if gap > self.BOUND:
            self.opened = observation.step if self.opened is None else self.opened
        self.quiet = self.quiet + 1 if gap < self.CLEAR else 0
        if self.quiet >= self.QUIET_ROWS:
            self.opened = None
        if self.opened is None:
            return ()
        return [
            self._finding(
                observation,
                f"The mean ratio of trainer to sampler probability is {ratio:.3g} and should be 1, "
                f"since step {self.opened}.",
                signal=RATIO,
                baseline=1.0,
                window=1,
                statistic=gap,
                threshold=self.BOUND,
                onset=[self.opened, self.opened],
                arithmetic="|ln(mean ratio)| > ln 2",
            )
        ]

    def _resume(self, step: int) -> None:
        if self.opened is not None and step <= self.opened:
            self.opened, self.quiet = None, 0
