"""Loss explosion: the loss leaves every plausible range while the reward still looks normal."""

from collections.abc import Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.base_classes.readings import list_missing
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.history import History

__all__ = ["LossExplosion"]

LOSS, REFERENCE, REWARD = "loss/policy", "kl/ref", "reward/mean"


class LossExplosion(StreamDetector):
    """Warns when the loss is above 100 in size and a hundred times its usual size; critical above 100,000.

    A policy-gradient loss is a mean of advantages, so it is of order one. A value above 100 is an exponentiated log
    ratio or the tail of a k3 KL estimate, and each such row is an update in a meaningless direction. The finding holds
    for 20 rows. Above 100,000 it is critical, because the optimiser then keeps only noise of such a gradient.

    A row in which the KL divergence to the reference is as large as the loss is not counted: there the loss is β times
    the k3 estimate of one outlying token, and a clipped gradient has no lasting effect. `KlRunaway` reads the
    divergence itself. If rewards are not of order one, a loss that contains a value loss is of the order of their
    square, and both bounds are multiplied by the square of their usual size.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(LossExplosion(), {"loss/policy": [0.1] * 6 + [500.0]})
    [(6, 'loss_explosion', 'warning')]
    """

    kind = "loss_explosion"
    severity = Severity.WARNING
    reads = (LOSS, REFERENCE, REWARD)
    FACTOR, LARGE, ABSURD, HELD_ROWS = 100.0, 100.0, 1e5, 20

    def __init__(self) -> None:
        super().__init__()
        self.history = History(length=40, lag=0, least=4, estimates_noise=False)
        self.rewards = History(length=40, lag=0, least=4, estimates_noise=False)
        self.left = 0
        self.since: int | None = None
        self.worst = 0.0
        self.absurd = False

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        loss = observation.finite.get(LOSS)
        reward, reference = observation.finite.get(REWARD), observation.finite.get(REFERENCE)
        if reward is not None:
            self.rewards.append(abs(reward))
        if loss is None:
            return ()
        has_baseline = self.history.has_baseline
        baseline = self.history.baseline() if abs(loss) > self.LARGE or self.left else None
        self.history.append(abs(loss))
        if baseline is None:  # nearly every row: there is no baseline, or the loss is not large
            if has_baseline:
                self.since, self.worst, self.absurd = None, 0.0, False
            return ()
        unit = max(1.0, self.rewards.baseline() or 0.0) ** 2
        is_estimate = reference is not None and reference >= abs(loss)
        if not is_estimate and abs(loss) > max(self.LARGE * unit, self.FACTOR * baseline):
            self.since = observation.step if self.since is None else self.since
            self.left, self.worst = self.HELD_ROWS, max(self.worst, abs(loss))
            self.absurd = self.absurd or abs(loss) > self.ABSURD * unit
        elif self.left:
            self.left -= 1
        if not self.left:
            self.since, self.worst, self.absurd = None, 0.0, False
            return ()
        return [
            self._finding(
                observation,
                f"The loss reached {self.worst:.3g} since step {self.since}; its usual size is {baseline:.3g}.",
                severity=Severity.CRITICAL if self.absurd else self.severity,
                signal=LOSS,
                baseline=baseline,
                window=len(self.history.values),
                statistic=self.worst,
                threshold=max(self.LARGE * unit, self.FACTOR * baseline),
                onset=[self.since, self.since],
                missing=list_missing(observation.finite, (LOSS,)),
                arithmetic="|loss| > 100 max(1, r)^2, |loss| > 100 times the median of 40 rows, and |loss| > kl",
            )
        ]

    def _resume(self, step: int) -> None:
        if self.since is not None and step <= self.since:
            self.left, self.since, self.worst, self.absurd = 0, None, 0.0, False
