"""Loss explosion: the loss leaves every plausible range while the reward still looks normal."""

from collections.abc import Sequence

from monitor_server.detection.base.detector import StreamDetector
from monitor_server.detection.base.readings import finite
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.history import History

__all__ = ["LossExplosion"]

LOSS = "loss/policy"


class LossExplosion(StreamDetector):
    """Warns when the loss is above 100 in size and a hundred times its usual size; critical above 100,000.

    A policy-gradient loss is a mean of advantages, so it is of order one. A value above 100 is an exponentiated log
    ratio or the tail of a k3 KL estimate, and each such row is an update in a meaningless direction. The finding holds
    for 20 rows. Above 100,000 it is critical: whatever the optimiser keeps of such a gradient is noise.

    >>> from monitor_server.detection.base.episodes import episodes
    >>> episodes(LossExplosion(), {"loss/policy": [0.1] * 6 + [500.0]})
    [(6, 'loss_explosion', 'warning')]
    """

    kind = "loss_explosion"
    severity = Severity.WARNING
    reads = (LOSS,)
    FACTOR, LARGE, ABSURD, HELD_ROWS = 100.0, 100.0, 1e5, 20

    def __init__(self) -> None:
        super().__init__()
        self.history = History(length=40, lag=0, least=4)
        self.left = 0
        self.since: int | None = None
        self.worst = 0.0

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        loss = finite(observation.signals, LOSS)
        if loss is None:
            return ()
        baseline = self.history.baseline()
        self.history.append(abs(loss))
        if baseline is None:
            return ()
        if abs(loss) > self.LARGE and abs(loss) > self.FACTOR * baseline:
            self.since = observation.step if self.since is None else self.since
            self.left, self.worst = self.HELD_ROWS, max(self.worst, abs(loss))
        elif self.left:
            self.left -= 1
        if not self.left:
            self.since, self.worst = None, 0.0
            return ()
        return [
            self._finding(
                observation,
                f"The loss reached {self.worst:.3g} since step {self.since}, usually {baseline:.3g}.",
                severity=Severity.CRITICAL if self.worst > self.ABSURD else self.severity,
                signal=LOSS,
                baseline=baseline,
                window=len(self.history.values),
                statistic=self.worst,
                threshold=max(self.LARGE, self.FACTOR * baseline),
                onset=[self.since, self.since],
                arithmetic="|loss| > 100 and |loss| > 100 times the median of 40 rows",
            )
        ]

    def _resume(self, step: int) -> None:
        if self.since is not None and step <= self.since:
            self.left, self.since, self.worst = 0, None, 0.0
