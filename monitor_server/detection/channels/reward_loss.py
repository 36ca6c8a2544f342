"""Loss of reward: the newest rewards all lie far below those before, and rarely if ever did so before."""

from collections import deque

from monitor_server.detection.statistics.rarity import MOST_ROWS, rarity
from monitor_server.detection.statistics.robust import median
from monitor_server.detection.statistics.state import Stateful

__all__ = ["RewardLoss"]

WINDOW = 40  # rows of baseline
LEAST = 4
LEAST_SPAN = 0.02  # of the baseline above the floor, in the unit of the reward: less is nothing to lose


class RewardLoss(Stateful):
    """How improbable the newest 2 to 6 rewards are, of which each must lie under a share of the baseline.

    For each m from 2 to 6 the baseline b is the median of up to 40 rewards before the newest m. Each of the m must lie
    under floor + share · (b − floor), with the floor 0 or the lowest reward. The result is the smallest `rarity` of
    those m. It needs four rewards before, not a warm-up, and no distribution of the noise.

    Args:
        share: What is left of the baseline at most.

    >>> loss = RewardLoss(share=0.6)
    >>> [round(loss.update(reward), 6) for reward in [0.9, 0.8, 1.0, 0.9, 0.8, 0.9, 0.3, 0.1, 0.2]][-3:]
    [1.0, 0.015625, 0.001953]
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self.rewards: deque[float] = deque(maxlen=WINDOW + MOST_ROWS)
        self.floor = 0.0
        self.rarity = 1.0
        self.baseline: float | None = None

    def update(self, reward: float) -> float:
        """Add one reward and return the rarity, 1 where the newest rewards are not low."""
        self.rewards.append(reward)
        self.floor = min(self.floor, reward)
        self.rarity, values = 1.0, list(self.rewards)
        if len(values) < LEAST + 2 or reward >= median(values):
            return self.rarity
        for rows in range(2, MOST_ROWS + 1):
            before = values[:-rows][-WINDOW:]
            if len(before) < LEAST:
                break
            baseline = median(before)
            bound = self.floor + self._share * (baseline - self.floor)
            if baseline - self.floor > LEAST_SPAN and max(values[-rows:]) < bound:
                found = rarity([*before, *values[-rows:]], falls=True, rows=(rows,))
                if found < self.rarity:
                    self.rarity, self.baseline = found, baseline
        return self.rarity

    def restart(self) -> None:
        """Discard the rewards, because they changed their meaning."""
        self.rewards.clear()
        self.floor, self.rarity, self.baseline = 0.0, 1.0, None
