"""The end: the reward has fallen below half of its best and stays there."""

import math
from collections import deque
from collections.abc import Sequence
from itertools import pairwise

from monitor_server.detection.detectors.joint_departure import JointDeparture
from monitor_server.detection.parts.base import StreamDetector, finite
from monitor_server.detection.parts.departure import Departure, Size
from monitor_server.detection.parts.mechanisms import Mechanisms
from monitor_server.detection.parts.statistics import Ema, median
from monitor_server.detection.protocol import Finding, Observation, Severity

__all__ = ["RunCollapsed"]

REWARD = "reward/mean"
GROUPS = "reward/zero_std_frac"
SINCE_BEST = {"entropy": "entropy/mean", "length": "length/mean", "off-policy": "ratio/clip_frac"}
CHANGED = 1.5  # times what it was when the reward was best
FAST = Size(factor=0.5, least=0.02, errors=3.0, rows=2)


class RunCollapsed(StreamDetector):
    """Says that a run is dead: its reward has lost half, beyond noise, and another mechanism failed with it.

    Slow: for 4 rows the median of the newest 5, 10 or 20 rewards, two of its standard errors (1.25 σ / √n) added, lies
    under half of the best median of 20 (from 6 on), and five of them below that best, and another mechanism departed
    meanwhile; a gradient of exactly zero, groups without variance, and entropy, length or clip share at 1.5 times what
    it was at the best reward count. The two errors are the doubt of a small batch: its reward may show half where the
    policy has kept three fifths. Fast: two rows of reward under half of the baseline by three deviations, while two
    other mechanisms depart. Half is counted from the run's floor (0, or the lowest reward where rewards are negative).
    Medians, because rewards that are mostly zero have averages that peak by luck: with an average and no second
    mechanism, one healthy run in five is paged. It ends when the median is above three quarters.

    This is a statement, not a forecast: it has no lead time.
    """

    kind = "run_collapsed"
    severity = Severity.CRITICAL
    reads = (REWARD, "grad/norm", GROUPS, *(name for name in JointDeparture.reads if name != REWARD))
    SHARE, BACK, ROWS, ERRORS, DOUBT = 0.5, 0.75, 4, 5.0, 2.0
    LEVEL_ROWS, PLATEAU_ROWS = (5, 10, 20), 20

    def __init__(self) -> None:
        super().__init__()
        self.rewards: deque[float] = deque(maxlen=60)
        self.fast = Departure(FAST)
        self.groups = Departure(Size(least=0.2))
        self.mechanisms = Mechanisms()
        self.averages = {name: Ema(0.2) for name in SINCE_BEST}
        self.at_best: dict[str, float] = {}
        self.best: float | None = None
        self.best_step: int | None = None
        self.level = 0.0
        self.floor = 0.0
        self.below = 0
        self.since: int | None = None
        self.agreeing: list[str] = []
        self.active = False

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        # The distance to the reference grows in healthy runs too.
        departed = set(self.mechanisms.update(observation)) - {"reward", "reference"}
        moved = departed | self._silenced(observation) | self._changed_since_best(observation)
        reward = finite(observation.signals, REWARD)
        if reward is None:
            return ()
        fell = self.fast.update(reward)
        self.rewards.append(reward)
        self.floor = min(self.floor, reward)
        values = list(self.rewards)
        self.level = median(values[-self.LEVEL_ROWS[0] :])
        if len(values) > self.LEVEL_ROWS[0]:
            plateau = median(values[-self.PLATEAU_ROWS :])
            if self.best is None or plateau > self.best:
                self.best, self.best_step = plateau, observation.step
                self.at_best = {name: e.value for name, e in self.averages.items() if e.value is not None}
        self._judge(moved, observation.step, suddenly=fell and len(departed) > 1, fell=fell)
        return [self._dead(observation)] if self.active else ()

    def _silenced(self, observation: Observation) -> set[str]:
        """Give the signs that nothing is learned any more: a gradient of exactly zero, groups without variance."""
        signs = {"gradient"} if finite(observation.signals, "grad/norm") == 0.0 else set()
        silent = finite(observation.signals, GROUPS)
        return signs | {"groups"} if silent is not None and self.groups.update(silent) else signs

    def _changed_since_best(self, observation: Observation) -> set[str]:
        """Give the mechanisms far above what they were at the best reward: slow changes are their own baseline soon."""
        changed = set()
        for name, signal in SINCE_BEST.items():
            value = finite(observation.signals, signal)
            level = self.averages[name].value if value is None else self.averages[name].update(value)
            before = self.at_best.get(name)
            if level is not None and before is not None and level > CHANGED * before > 0.0:
                changed.add(name)
        return changed

    def _judge(self, moved: set[str], step: int, *, suddenly: bool, fell: bool) -> None:
        low = self._is_low()
        self.below = self.below + 1 if low else 0
        if not (low or fell or self.active):
            self.since, self.agreeing = None, []
            return
        self.since = step if self.since is None else self.since
        self.agreeing = sorted({*self.agreeing, *moved})
        if suddenly or (self.below >= self.ROWS and self.agreeing):
            self.active = True
        elif self._share() > self.BACK:
            self.active, self.since, self.agreeing = False, None, []

    def _is_low(self) -> bool:
        if self._share() >= self.SHARE or self.best is None:
            return False
        values = list(self.rewards)
        levels = [(median(values[-n:]), n) for n in self.LEVEL_ROWS if n <= len(values)]
        return any(self._is_half(level, self.best, self._error(n)) for level, n in levels)

    def _is_half(self, level: float, best: float, error: float) -> bool:
        return self._share(level + self.DOUBT * error) < self.SHARE and best - level > self.ERRORS * error

    def _share(self, level: float | None = None) -> float:
        """Give what is left of the best reward, both counted from the floor."""
        if self.best is None or self.best - self.floor <= FAST.least:
            return 1.0
        return ((self.level if level is None else level) - self.floor) / (self.best - self.floor)

    def _error(self, rows: int) -> float:
        """Give the standard error of a median: 1.25 σ / √n, σ² half the mean squared difference.

        Not a robust scale: rewards that are 0 but for a few rows have a median difference of 0.
        """
        squares = [(b - a) ** 2 for a, b in pairwise(self.rewards)]
        return 1.25 * math.sqrt(sum(squares) / (2 * max(1, len(squares)) * rows))

    def _dead(self, observation: Observation) -> Finding:
        best = self.best or 0.0
        return self._finding(
            observation,
            f"The reward fell from {best:.3g} at step {self.best_step} to {self.level:.3g}, "
            f"and with it moved: {', '.join(self.agreeing)}.",
            signal=REWARD,
            baseline=best,
            window=self.below,
            statistic=1.0 / max(self._share(), 1e-6),
            threshold=1.0 / self.SHARE,
            error=self._error(self.LEVEL_ROWS[0]),
            agreeing=self.agreeing,
            onset=[self.since, self.since],
            arithmetic="b / (median + 2 SE) > 2 for 4 rows by 5 SE and another mechanism, or r < b / 2 and two others",
        )

    def _resume(self, step: int) -> None:
        if self.since is not None and step <= self.since:
            self.rewards.clear()
            self.active, self.below, self.since, self.agreeing = False, 0, None, []

    def _rebaseline(self) -> None:
        self.mechanisms.restart()
        self.fast.restart()
        if not self.active:
            self.rewards.clear()
            self.best, self.below, self.floor = None, 0, 0.0
