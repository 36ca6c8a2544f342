"""Plateau: the reward stays constant. Some runs have learned all they can, others never learn."""

import math
from collections.abc import Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.history import History
from monitor_server.detection.statistics.robust import line

__all__ = ["Plateau"]

REWARD = "reward/mean"
ROWS = 100
EVERY = 4  # rows between two estimates: a line over a hundred rows moves slowly


class Plateau(StreamDetector):
    """Informs when the line through the last 100 rewards is flat: its rise is under 0.02 and under two standard errors.

    It ends when the rise exceeds four standard errors. A plateau predicts nothing and must not notify. Together with
    `SilentGroups` it means that there is nothing left to learn from; together with `LikelihoodDrift`, that learning has
    ended but the policy still moves.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(Plateau(), {"reward/mean": [0.5 + 0.01 * (-1) ** row for row in range(110)]})
    [(103, 'plateau', 'info')]
    """

    kind = "plateau"
    severity = Severity.INFO
    reads = (REWARD,)
    skips_rows_without = True
    LEAST_RISE, FLAT, ENDED = 0.02, 2.0, 4.0

    def __init__(self) -> None:
        super().__init__()
        self.history = History(length=ROWS, lag=0, least=ROWS, floor=1e-4, momentum=False)
        self.rise = 0.0
        self.errors = 0.0
        self.since: int | None = None

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        reward = observation.finite.get(REWARD)
        if reward is None:
            return ()
        self.history.append(reward)
        if not self.history.has_scale:
            return ()
        if self.history.seen % EVERY == 0 and (scale := self.history.scale) is not None:
            self._update_alarm(scale, observation.step)
        return [self._build_finding(observation)] if self.since is not None else ()

    def _update_alarm(self, scale: float, step: int) -> None:
        _, slope = line(list(self.history.values))
        self.rise = slope * ROWS
        self.errors = self.rise / (scale * math.sqrt(12.0 / ROWS))  # SE of slope × n: σ √(12 / n)
        if self.since is None and self.rise < self.LEAST_RISE and abs(self.errors) < self.FLAT:
            self.since = step
        elif abs(self.errors) > self.ENDED:
            self.since = None

    def _build_finding(self, observation: Observation) -> Finding:
        return self._finding(
            observation,
            f"The reward has stood still for {ROWS} rows, seen at step {self.since}: it changed by {self.rise:.3g}.",
            signal=REWARD,
            baseline=self.history.baseline(),
            window=ROWS,
            statistic=abs(self.errors),
            threshold=self.FLAT,
            onset=[self.since, self.since],
            arithmetic="slope x 100 rows < 0.02 and |slope| / SE < 2",
        )

    def _resume(self, step: int) -> None:
        if self.since is not None and step <= self.since:
            self.since = None

    def _rebaseline(self) -> None:
        self.history.clear()
        self.since = None
