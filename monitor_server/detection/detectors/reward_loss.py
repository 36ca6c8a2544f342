"""Reward loss: the reward loses two fifths or more and stays there, in a run where this has not happened before."""

import math
from collections.abc import Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.rare_loss import RareLoss

__all__ = ["RewardLoss"]

REWARD = "reward/mean"


class RewardLoss(StreamDetector):
    """Warns when 3 to 6 successive rewards are under 60 % of the baseline, with a `rarity` under 1 in 10,000.

    `RewardFall` detects deep falls in robust deviations. This rule detects partial and lasting ones by ranks: it counts
    how often the last 40 rewards were that low, so that a reward that is often 0 needs more rows, and one that never
    was that low needs fewer. It can open from the tenth row on. It ends when the reward is above four fifths of that
    baseline in three successive rows, or after 40 rows, when the new level becomes the baseline.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(RewardLoss(), {"reward/mean": [0.9, 0.8, 1.0, 0.9, 0.8] * 3 + [0.4] * 5})
    [(18, 'reward_fall', 'warning')]
    """

    kind = "reward_fall"
    severity = Severity.WARNING
    reads = (REWARD,)
    skips_rows_without = True
    SHARE, RARITY, BACK, QUIET_ROWS, HELD_ROWS = 0.6, 1e-4, 0.8, 3, 40

    def __init__(self) -> None:
        super().__init__()
        self.loss = RareLoss(self.SHARE)
        self.from_level = 0.0
        self.to_level: float | None = None  # at the row at which the finding opened
        self.rarest = 1.0
        self.opened: int | None = None
        self.rows = 0
        self.quiet = 0

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        reward = observation.finite.get(REWARD)
        if reward is None:
            return ()
        found = self.loss.update(reward)
        self.rows += 1
        if found < self.RARITY:
            if self.opened is None:
                self.opened, self.from_level, self.to_level = observation.step, self.loss.baseline or 0.0, reward
                self.rarest = 1.0
            self.rows, self.quiet, self.rarest = 0, 0, min(self.rarest, found)
        is_back = reward > self.loss.floor + self.BACK * (self.from_level - self.loss.floor)
        self.quiet = self.quiet + 1 if is_back else 0
        if self.quiet >= self.QUIET_ROWS or self.rows >= self.HELD_ROWS:
            self.opened = None
        return [self._build_finding(observation, reward)] if self.opened is not None else ()

    def _build_finding(self, observation: Observation, reward: float) -> Finding:
        to_level = reward if self.to_level is None else self.to_level
        now = "" if reward == to_level else f"; it is now {reward:.3g}"
        return self._finding(
            observation,
            f"The reward went from {self.from_level:.3g} to {to_level:.3g} since step {self.opened}, "
            f"a level that it has hardly ever had{now}.",
            signal=REWARD,
            baseline=self.from_level,
            window=len(self.loss.rewards),
            statistic=-math.log10(self.rarest),
            threshold=-math.log10(self.RARITY),
            level=reward,
            rarity=self.rarest,
            onset=[self.opened, self.opened],
            arithmetic="3 to 6 rows, each < 0.6 b, and ((c + 1) / (n + 2))^m < 0.0001, c of n rows before as low",
        )

    def _resume(self, step: int) -> None:
        if self.opened is not None and step <= self.opened:
            self.opened = None

    def _rebaseline(self) -> None:
        self.loss.restart()
        self.opened = None
