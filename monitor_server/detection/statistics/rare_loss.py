"""A rare loss: the newest values of a reward or a share are all far below the earlier ones, which is rare."""

import math
from bisect import bisect_left, bisect_right, insort_right
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from monitor_server.detection.statistics.rarity import MOST_ROWS
from monitor_server.detection.statistics.robust import sorted_median
from monitor_server.detection.statistics.state import Stateful, find_floor, take_newest

__all__ = ["RareLoss"]

WINDOW = 40  # rows of baseline
LEAST = 4
LEAST_ROWS = 2  # one low reward is no loss
LEAST_SPAN = 0.02  # of the baseline above the floor, in the unit of the reward: a smaller span leaves nothing to lose


class RareLoss(Stateful):
    """The improbability of the newest 2 to 6 rewards, each of which must be under a share of the baseline.

    For each m from 2 to 6 the baseline b is the median of up to 40 rewards before the newest m. Each of the m must lie
    under floor + share · (b − floor), with the floor 0 or the lowest reward. The result is the smallest `rarity` of
    those m. It needs four rewards before, not a warm-up, and no distribution of the noise.

    Args:
        share: The largest remaining share of the baseline.

    >>> loss = RareLoss(share=0.6)
    >>> [round(loss.update(reward), 6) for reward in [0.9, 0.8, 1.0, 0.9, 0.8, 0.9, 0.3, 0.1, 0.2]][-3:]
    [1.0, 0.015625, 0.001953]
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._largest = -math.inf
        # The rewards in ascending order, while rows are measured one after the other.
        self._ordered: list[float] | None = None
        self.rewards: deque[float] = deque(maxlen=WINDOW + MOST_ROWS)
        self.floor = 0.0
        self.rarity = 1.0
        self.baseline: float | None = None

    def update(self, reward: float) -> float:
        """Add one reward and return the rarity; 1 if the newest rewards are not low.

        No baseline is larger than the largest reward, so a comparison with it decides nearly every row.
        """
        rewards = self.rewards
        leaving = rewards[0] if len(rewards) == WINDOW + MOST_ROWS else -math.inf
        rewards.append(reward)
        if reward >= self._largest:
            self._largest = reward
        elif leaving >= self._largest:
            self._largest = max(rewards)
        if reward < self.floor:  # noqa: PLR1730 - cheaper than a call
            self.floor = reward
        self.rarity = 1.0
        if reward < self.floor + self._share * (self._largest - self.floor):
            self._measure(reward, self._sort(reward, leaving))
        else:
            self._ordered = None
        return self.rarity

    def _sort(self, reward: float, leaving: float) -> list[float]:
        """Return all rewards in ascending order; the order of the last row changes by only one or two values."""
        ordered = self._ordered
        if ordered is None:
            self._ordered = ordered = sorted(self.rewards)
            return ordered
        if leaving != -math.inf:
            del ordered[bisect_left(ordered, leaving)]
        insort_right(ordered, reward)
        return ordered

    def _measure(self, reward: float, ordered: Sequence[float]) -> None:
        """Measure the rarity of the newest rewards, which may be low."""
        if len(ordered) < LEAST + 2 or reward >= sorted_median(ordered):
            return
        values, floor = list(self.rewards), self.floor
        most = self._count_low(values, ordered)
        if most < LEAST_ROWS:
            return
        before = sorted(values[:-most][-WINDOW:])
        # The most rows come first: if chance hardly causes them, fewer rows cannot be rarer, and are not examined.
        for rows in range(most, LEAST_ROWS - 1, -1):
            if rows < most:  # the window moves on by one row, and stays in order
                if len(values) > rows + WINDOW:
                    del before[bisect_left(before, values[-rows - 1 - WINDOW])]
                insort_right(before, values[-rows - 1])
            if (1.0 / (len(before) + 2)) ** rows > self.rarity:
                break
            mildest, baseline = max(values[-rows:]), sorted_median(before)
            if baseline - floor > LEAST_SPAN and mildest < floor + self._share * (baseline - floor):
                # The rarity of these rows, with a sorted baseline.
                found = ((bisect_right(before, mildest) + 1) / (len(before) + 2)) ** rows
                if found <= self.rarity:
                    self.rarity, self.baseline = found, baseline

    @property
    def largest(self) -> float:
        """The largest value that is kept; minus infinity if there is none."""
        return self._largest

    def _count_low(self, values: Sequence[float], ordered: Sequence[float]) -> int:
        """Count the newest rewards, up to 6, that are under the largest bound that any of the baselines can have.

        Of n ordered values, the upper median of any k of them is at most the value at place n - ⌈k / 2⌉, from 0.
        """
        fewest = max(LEAST, min(WINDOW, len(ordered) - MOST_ROWS))
        largest = ordered[len(ordered) - (fewest + 1) // 2]
        bound, count = self.floor + self._share * (largest - self.floor), 0
        for value in values[: -1 - min(MOST_ROWS, len(values) - LEAST) : -1]:
            if value >= bound:
                break
            count += 1
        return count

    def restart(self) -> None:
        """Discard the rewards, because they changed their meaning."""
        self.rewards.clear()
        self._largest, self._ordered = -math.inf, None
        self.floor, self.rarity, self.baseline = 0.0, 1.0, None

    def take_back(self, rows: int, left: int) -> None:  # noqa: ARG002 - the rewards are counted
        """Forget the newest rewards, and a floor that may be one of them."""
        rewards, floor = self.rewards.copy(), self.floor
        taken = take_newest(rewards, rows)
        self.restart()
        self.rewards, self._largest = rewards, max(rewards, default=-math.inf)
        self.floor = find_floor(floor, rewards, taken)

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; the largest reward is determined again."""
        super().load(state)
        self._largest, self._ordered = max(self.rewards, default=-math.inf), None
