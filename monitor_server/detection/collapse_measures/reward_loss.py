"""Loss of reward: the newest rewards all lie far below those before, and rarely if ever did so before."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping
from typing import Any

from monitor_server.detection.statistics.rarity import MOST_ROWS, rarity
from monitor_server.detection.statistics.robust import median, sorted_median
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
        self._ordered: list[float] = []  # the rewards in ascending order
        self.rewards: deque[float] = deque(maxlen=WINDOW + MOST_ROWS)
        self.floor = 0.0
        self.rarity = 1.0
        self.baseline: float | None = None

    def update(self, reward: float) -> float:
        """Add one reward and return the rarity, 1 where the newest rewards are not low."""
        if len(self.rewards) == WINDOW + MOST_ROWS:
            del self._ordered[bisect_left(self._ordered, self.rewards[0])]
        self.rewards.append(reward)
        insort(self._ordered, reward)
        self.floor = min(self.floor, reward)
        self.rarity = 1.0
        if len(self._ordered) < LEAST + 2 or reward >= sorted_median(self._ordered):
            return self.rarity
        if not self._may_be_low():
            return self.rarity
        values = list(self.rewards)
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

    @property
    def largest(self) -> float:
        """The largest value that is kept; there must be one."""
        return self._ordered[-1]

    def _may_be_low(self) -> bool:
        """Return whether the two newest rewards lie under the largest bound that any of the baselines can have.

        Of n ordered values, the upper median of any k of them is at most the value at place n - ⌈k / 2⌉, from 0. This
        one comparison decides nearly every row.
        """
        ordered = self._ordered
        fewest = max(LEAST, min(WINDOW, len(ordered) - MOST_ROWS))
        largest = ordered[len(ordered) - (fewest + 1) // 2]
        return max(self.rewards[-1], self.rewards[-2]) < self.floor + self._share * (largest - self.floor)

    def restart(self) -> None:
        """Discard the rewards, because they changed their meaning."""
        self.rewards.clear()
        self._ordered.clear()
        self.floor, self.rarity, self.baseline = 0.0, 1.0, None

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; the order is built again from the rewards."""
        super().load(state)
        self._ordered = sorted(self.rewards)
