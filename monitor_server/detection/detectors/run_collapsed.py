"""Run collapsed: the reward has fallen below half of its best and stays there."""

import math
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.detector_parts.mechanisms import Mechanisms
from monitor_server.detection.detectors.joint_departure import JointDeparture
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.departure import Departure, Size
from monitor_server.detection.statistics.rare_loss import RareLoss
from monitor_server.detection.statistics.robust import median, sorted_median
from monitor_server.detection.statistics.state import find_floor, take_newest
from monitor_server.detection.statistics.streaming import Ema

__all__ = ["RunCollapsed"]

REWARD = "reward/mean"
REWARDS = 60  # the number of rewards that are kept
GROUPS = "reward/zero_std_frac"
SINCE_BEST = {"entropy": "entropy/mean", "length": "length/mean", "off-policy": "ratio/clip_frac"}
CHANGED = 1.5  # times its value at the best reward
UNCOUNTED = ("reward", "reference")
FAST = Size(factor=0.5, least=0.02, errors=3.0, rows=2)


class RunCollapsed(StreamDetector):
    """Reports a critical finding when a run is dead: its reward lost half, beyond noise, and another mechanism failed.

    Slow form: for 4 rows the median of the newest 5, 10 or 20 rewards plus two of its standard errors (1.25 σ / √n)
    lies under half of the best median of 20 (from 6 rows on) and at least five standard errors below that best, and
    another mechanism departed meanwhile. A gradient of exactly zero, groups without variance, and entropy, length or
    clip share at 1.5 times its value at the best reward count as mechanisms. The two standard errors allow for a small
    batch, whose reward may be half while the policy has kept three fifths.

    Fast form: two rows of reward under half of the baseline by three deviations, while two other mechanisms depart.

    Unprecedented form: 4 to 6 rows of reward, each under half of the baseline, with a `rarity` under 1 in 100,000. It
    needs no other mechanism, because many trainers log none, and no warm-up.

    Half is counted from the run's floor, which is 0, or the lowest reward if rewards are negative. Medians are used
    because averages of rewards that are mostly zero have peaks by chance: with an average and without a second
    mechanism, one healthy run in five gets a critical finding. The finding ends when the median is above three
    quarters.

    The finding states a fact. It is not a forecast and has no lead.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> reward, entropy = [0.60, 0.62, 0.58, 0.60] * 5 + [0.02] * 8, [0.3, 0.31] * 10 + [1.0] * 8
    >>> episodes(RunCollapsed(), {"reward/mean": reward, "entropy/mean": entropy})
    [(23, 'run_collapsed', 'critical')]
    """

    kind = "run_collapsed"
    severity = Severity.CRITICAL
    reads = (REWARD, "grad/norm", GROUPS, *(name for name in JointDeparture.reads if name != REWARD))
    SHARE, BACK, ROWS, ERRORS, DOUBT = 0.5, 0.75, 4, 5.0, 2.0
    RARITY = 1e-5
    LEVEL_ROWS, PLATEAU_ROWS = (5, 10, 20), 20

    def __init__(self) -> None:
        super().__init__()
        self.rewards: deque[float] = deque(maxlen=REWARDS)
        self.fast = Departure(FAST)
        self.loss = RareLoss(self.SHARE)
        self.groups = Departure(Size(least=0.2))
        self.mechanisms = Mechanisms()
        self.averages = {name: Ema(0.2) for name in SINCE_BEST}
        self.at_best: dict[str, float] = {}
        self.best: float | None = None
        self.best_step: int | None = None
        self.level = 0.0
        self.floor = 0.0
        self.unobserved = 0  # the number of rows since the last reward
        self.below = 0
        self.since: int | None = None
        self.agreeing: list[str] = []
        self.active = False
        self._squares = self._square_differences()

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        # The distance to the reference also grows in healthy runs, so it is not evidence of a collapse.
        left = self.mechanisms.update(observation)
        departed = {name for name in left if name not in UNCOUNTED} if left else set()
        moved = departed | self._find_silent(observation) | self._find_changes_since_best(observation)
        reward = observation.finite.get(REWARD)
        if reward is None:
            self.unobserved += 1
            return ()
        self.unobserved = 0
        fell = self.fast.update(reward)
        is_unprecedented = self.loss.update(reward) < self.RARITY
        if self.rewards:
            self._squares.append((reward - self.rewards[-1]) ** 2)
        self.rewards.append(reward)
        if reward < self.floor:  # noqa: PLR1730 - cheaper than a call
            self.floor = reward
        values = list(self.rewards)
        newest = sorted(values[-self.LEVEL_ROWS[0] :])
        self.level = newest[2] if len(newest) == self.LEVEL_ROWS[0] else sorted_median(newest)
        # A reward that is not above the one that leaves the window cannot raise its median.
        may_rise = len(values) <= self.PLATEAU_ROWS or reward > values[-self.PLATEAU_ROWS - 1]
        if len(values) > self.LEVEL_ROWS[0] and may_rise:
            plateau = median(values[-self.PLATEAU_ROWS :])
            if self.best is None or plateau > self.best:
                self.best, self.best_step = plateau, observation.step
                self.at_best = {name: e.value for name, e in self.averages.items() if e.value is not None}
        suddenly = is_unprecedented or (fell and len(departed) > 1)
        self._update_alarm(moved, observation.step, suddenly=suddenly, fell=fell)
        return [self._build_finding(observation)] if self.active else ()

    def _find_silent(self, observation: Observation) -> set[str]:
        """Return the signs that learning has stopped: a gradient of exactly zero, groups without variance."""
        signs = {"gradient"} if observation.finite.get("grad/norm") == 0.0 else set()
        silent = observation.finite.get(GROUPS)
        return signs | {"groups"} if silent is not None and self.groups.update(silent) else signs

    def _find_changes_since_best(self, observation: Observation) -> set[str]:
        """Return the mechanisms far above their level at the best reward; a moving window would follow slow changes."""
        changed = set()
        get, averages, at_best = observation.finite.get, self.averages, self.at_best
        for name, signal in SINCE_BEST.items():
            value, average = get(signal), averages[name]
            level = average.value if value is None else average.update(value)
            before = at_best.get(name)
            if level is not None and before is not None and level > CHANGED * before > 0.0:
                changed.add(name)
        return changed

    def _update_alarm(self, moved: set[str], step: int, *, suddenly: bool, fell: bool) -> None:
        share = self._share()
        low = share < self.SHARE and self._is_low()  # this is rare
        self.below = self.below + 1 if low else 0
        if not (low or fell or self.active):
            self.since, self.agreeing = None, []
            return
        self.since = step if self.since is None else self.since
        self.agreeing = sorted({*self.agreeing, *moved})
        if suddenly or (self.below >= self.ROWS and self.agreeing):
            self.active = True
        elif share > self.BACK:
            self.active, self.since, self.agreeing = False, None, []

    def _is_low(self) -> bool:
        best, values = self.best, list(self.rewards)
        if best is None:
            return False
        for rows in self.LEVEL_ROWS:
            if rows > len(values):
                break
            level = median(values[-rows:])
            if self._share(level) >= self.SHARE:  # the error is costly to compute, and only raises the share
                continue
            if self._is_half(level, best, _error(self._squares, rows)):
                return True
        return False

    def _is_half(self, level: float, best: float, error: float) -> bool:
        return self._share(level + self.DOUBT * error) < self.SHARE and best - level > self.ERRORS * error

    def _share(self, level: float | None = None) -> float:
        """Return a level, or the newest one, as a share of the best reward, both counted from the floor.

        It is 1 while there is no best, and above 1 for a level that exceeds the best.
        """
        if self.best is None or self.best - self.floor <= FAST.least:
            return 1.0
        return ((self.level if level is None else level) - self.floor) / (self.best - self.floor)

    def _square_differences(self) -> deque[float]:
        """Return the squared differences of the successive rewards that are kept."""
        squares = [(after - before) ** 2 for before, after in pairwise(self.rewards)]
        return deque(squares, maxlen=REWARDS - 1)

    def _build_finding(self, observation: Observation) -> Finding:
        best, share = self.best or 0.0, self._share()
        # The fast form opens while the median is still high.
        level = self.level if share < self.SHARE else min(self.level, self.rewards[-1])
        # A signal that is no mechanism may have moved, such as a gradient that grows.
        others = (
            f"with it moved: {', '.join(self.agreeing)}" if self.agreeing else "no other sign of a collapse agrees yet"
        )
        return self._finding(
            observation,
            f"The reward fell from {best:.3g} at step {self.best_step} to {level:.3g}, and {others}.",
            signal=REWARD,
            baseline=best,
            window=self.below,
            statistic=1.0 / max(share, 1e-6),
            threshold=1.0 / self.SHARE,
            error=_error(self._squares, self.LEVEL_ROWS[0]),
            rarity=self.loss.rarity,
            agreeing=self.agreeing,
            onset=[self.since, self.since],
            arithmetic="b / (median + 2 SE) > 2 for 4 rows by 5 SE and another mechanism, or r < b / 2 and two others, "
            "or 4 to 6 rows < b / 2 with ((c + 1) / (n + 2))^m < 0.00001",
        )

    def _resume(self, step: int) -> None:
        if self.since is not None and step <= self.since:
            self._forget_rewards()
            self.active, self.below, self.since, self.agreeing = False, 0, None, []
        if self._replaces_rows(step):
            self.below = 0
            if self.best_step is not None and step <= self.best_step:
                self._find_best(step)

    def _find_best(self, step: int) -> None:
        """Find the best reward again in the kept rows, because the rows from a step on are replaced."""
        values = list(self.rewards)
        is_known = len(values) > self.LEVEL_ROWS[0]
        self.best = median(values[-self.PLATEAU_ROWS :]) if is_known else None
        self.best_step = step - 1 if is_known else None
        self.at_best = {}

    def take_back(self, rows: int, left: int) -> None:
        """Forget the newest rewards, and a floor that may be one of them."""
        super().take_back(rows, left)
        taken = take_newest(self.rewards, rows)
        take_newest(self._squares, rows)
        self.floor = find_floor(self.floor, self.rewards, taken)

    def _rebaseline(self) -> None:
        self.mechanisms.restart()
        self.fast.restart()
        self.loss.restart()
        if not self.active:
            self._forget_rewards()
            self.best, self.below, self.floor = None, 0, 0.0

    def _forget_rewards(self) -> None:
        self.rewards.clear()
        self._squares.clear()

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; the squared differences are computed from the rewards."""
        super().load(state)
        self._squares = self._square_differences()


def _error(squares: Collection[float], rows: int) -> float:
    """Return the standard error of a median of ``rows``: 1.25 σ / √n, with σ² half the mean of squared differences.

    A robust scale is not suitable: rewards that are 0 except for a few rows have a median difference of 0.
    """
    return 1.25 * math.sqrt(sum(squares) / (2 * max(1, len(squares)) * rows))
