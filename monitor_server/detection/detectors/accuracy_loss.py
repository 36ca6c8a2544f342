"""Accuracy loss: fewer responses are correct than ever before, at any reward."""

from collections.abc import Sequence

from monitor_server.detection.base_classes.lasting_loss import LastingLoss
from monitor_server.detection.protocol import Finding, Observation

__all__ = ["AccuracyLoss"]

CORRECT, REWARD = "reward/correct_frac", "reward/mean"


class AccuracyLoss(LastingLoss):
    """Warns when the share of correct responses is under half of its baseline in 3 to 6 rows, for the first time.

    A reward for format, length or parts of an answer hides that the answers became wrong: it falls later, or rises. The
    rule is that of `LastingLoss`, without critical findings. The finding has the kind ``reward_hacking`` if the reward
    keeps four fifths of its average, and otherwise ``reward_fall``.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> correct, reward = [0.5, 0.6, 0.4, 0.5] * 10 + [0.0] * 5, [0.7] * 40 + [1.2] * 5
    >>> episodes(AccuracyLoss(), {"reward/correct_frac": correct, "reward/mean": reward})
    [(42, 'reward_hacking', 'warning')]
    """

    kind = "reward_hacking"
    reads = (CORRECT,)
    signal = CORRECT
    CRITICAL = 0.0  # a critical finding would occur in one of 41 healthy twins of suite D
    HOLDS, WEIGHT = 0.8, 0.1

    def __init__(self) -> None:
        super().__init__()
        self.reward: float | None = None  # the average while there is no loss
        self.is_hacking = False
        self.to_level: float | None = None  # the share at the row at which the finding opened

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        findings = super()._observe(observation)
        reward = observation.finite.get(REWARD) if self.opened is None else None
        if reward is not None:
            self.reward = reward if self.reward is None else self.reward + self.WEIGHT * (reward - self.reward)
        return findings

    def _read(self, observation: Observation) -> float | None:
        return observation.finite.get(CORRECT)

    def _open(self, observation: Observation) -> None:
        self.to_level, reward = observation.finite.get(CORRECT), observation.finite.get(REWARD)
        self.is_hacking = reward is not None and self.reward is not None and reward >= self.HOLDS * self.reward

    def _kind(self) -> str:
        return self.kind if self.is_hacking else "reward_fall"

    def _describe(self, value: float) -> str:
        holds = ", and the reward held" if self.is_hacking else ""
        to_level = value if self.to_level is None else self.to_level
        now = "" if value == to_level else f"; the share is now {value:.3g}"
        return (
            f"The share of correct responses went from {self.from_level:.3g} to {to_level:.3g} since step {self.opened}"
            f"{holds}{now}."
        )

    def take_back(self, rows: int, left: int) -> None:
        """Restart the average of the reward."""
        super().take_back(rows, left)
        self.reward = None

    def _rebaseline(self) -> None:
        super()._rebaseline()
        self.reward = None
