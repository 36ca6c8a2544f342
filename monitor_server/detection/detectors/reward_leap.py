"""Reward leap: from one row to the next the reward is more than twice its largest earlier value."""

from collections import deque
from collections.abc import Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.base_classes.passes import Pass, is_further_pass, read_pass
from monitor_server.detection.base_classes.readings import list_missing
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.robust import MAD_TO_SIGMA, median
from monitor_server.detection.statistics.state import find_floor, take_newest

__all__ = ["RewardLeap"]

REWARD, CORRECT = "reward/mean", "reward/correct_frac"


class RewardLeap(StreamDetector):
    """Warns when two rewards in a row are more than twice the largest of the 40 rows before, far beyond their noise.

    Policies take more than one row to learn. A leap comes from a changed reward, a grader that accepts everything,
    other data or another temperature of the sampler. It needs the reward alone, so it also reads logs without correct
    responses, in which `RewardDetachment` is silent. With the newest two rewards r, the largest b of up to 40 rows
    before (8 at least) and their deviation σ = 1.4826 · MAD · (1 + 4 / n), each counted from the run's floor (0, or the
    lowest reward): r > 2 b and r − b > max(0.1, 8 σ). If the share of correct responses has doubled as well, nothing is
    reported. The finding holds for 10 rows. Further passes over the same responses do not count.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(RewardLeap(), {"reward/mean": [0.3, 0.4, 0.35, 0.45] * 4 + [2.4, 2.6, 2.5]})
    [(17, 'reward_hacking', 'warning')]
    """

    kind = "reward_hacking"
    severity = Severity.WARNING
    reads = (REWARD, CORRECT)
    skips_rows_without = True
    ROWS, NEWEST, LEAST_ROWS, FACTOR, LEAST, ERRORS, HELD_ROWS = 40, 2, 8, 2.0, 0.1, 8.0, 10

    def __init__(self) -> None:
        super().__init__()
        self.rewards: deque[float] = deque(maxlen=self.ROWS + self.NEWEST)
        self.corrects: deque[float] = deque(maxlen=self.ROWS + self.NEWEST)
        self.before: Pass = []
        self.floor = 0.0
        self.from_level = 0.0
        self.to_level: float | None = None  # at the row at which the finding opened
        self.deviation = 0.0
        self.opened: int | None = None
        self.left = 0

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        reward, correct = observation.finite.get(REWARD), observation.finite.get(CORRECT)
        if reward is None:
            return ()
        now = read_pass(observation.finite)
        is_repeated, self.before = is_further_pass(now, self.before), now
        if not is_repeated:
            self.rewards.append(reward)
            self.floor = min(self.floor, reward)
            if correct is not None:
                self.corrects.append(correct)
            self.left = max(0, self.left - 1)
            if self._leaps() and not self._is_earned():
                if self.opened is None:
                    self.opened, self.to_level = observation.step, reward
                self.left = self.HELD_ROWS
        if not self.left:
            self.opened = None
            return ()
        return [self._build_finding(observation, reward)]

    def _leaps(self) -> bool:
        rewards, floor = self.rewards, self.floor
        if len(rewards) < self.LEAST_ROWS + self.NEWEST:
            return False
        low = min(rewards[-1], rewards[-2])
        # The largest is no less than the oldest, so this comparison decides nearly every row.
        if low - floor <= self.FACTOR * (rewards[0] - floor):
            return False
        before = list(rewards)[: -self.NEWEST]
        top = max(before)
        if low - floor <= self.FACTOR * (top - floor) or low - top <= self.LEAST:
            return False
        level = median(before)
        spread = MAD_TO_SIGMA * median([abs(value - level) for value in before])
        deviation = spread * (1.0 + 4.0 / len(before))
        if low - top <= self.ERRORS * deviation:
            return False
        self.from_level, self.deviation = top, deviation
        return True

    def _is_earned(self) -> bool:
        """Return whether the share of correct responses has doubled as well."""
        corrects = list(self.corrects)
        before, newest = corrects[: -self.NEWEST], corrects[-self.NEWEST :]
        return bool(before) and min(newest) > self.FACTOR * max(before)

    def _build_finding(self, observation: Observation, reward: float) -> Finding:
        to_level = reward if self.to_level is None else self.to_level
        now = "" if reward == to_level else f", and is now {reward:.3g}"
        return self._finding(
            observation,
            f"The reward was at most {self.from_level:.3g} and leapt to {to_level:.3g} at step {self.opened}{now}: "
            "look for a changed reward, grader, sampler or data set.",
            signal=REWARD,
            baseline=self.from_level,
            window=len(self.rewards),
            statistic=(max(self.rewards[-1], self.rewards[-2]) - self.floor) / max(self.from_level - self.floor, 1e-6),
            threshold=self.FACTOR,
            level=reward,
            deviation=self.deviation,
            missing=list_missing(observation.finite, self.reads),
            onset=[self.opened, self.opened],
            arithmetic="two rows: r > 2 b and r - b > max(0.1, 8 sigma), b the largest of the 40 rows before",
        )

    def _resume(self, step: int) -> None:
        if self.opened is not None and step <= self.opened:
            self.opened, self.left = None, 0

    def take_back(self, rows: int, left: int) -> None:
        """Forget the newest rewards, and a floor that may be one of them."""
        super().take_back(rows, left)
        taken = take_newest(self.rewards, rows)
        take_newest(self.corrects, rows)
        self.floor = find_floor(self.floor, self.rewards, taken)

    def _rebaseline(self) -> None:
        self.rewards.clear()
        self.corrects.clear()
        self.floor, self.opened, self.left = 0.0, None, 0
