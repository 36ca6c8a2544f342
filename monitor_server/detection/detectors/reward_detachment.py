"""Reward detachment: the reward rises beyond what the share of correct responses explains."""

import math
from collections import deque
from collections.abc import Sequence
from operator import mul

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.base_classes.passes import Pass, is_further_pass, read_pass
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.state import Stateful, take_newest
from monitor_server.detection.statistics.streaming import Cusum

__all__ = ["RewardDetachment"]

REWARD, CORRECT = "reward/mean", "reward/correct_frac"


class RewardDetachment(StreamDetector):
    """Warns when a reward that followed correct responses rises without them; critical when it more than doubles so.

    Over up to 40 rows that end two rows before now, the reward is fitted by r = a + s c, with c the share of correct
    responses. The excess e = r − a − s c is divided by the deviation σ of the fit, at least 2 % of the mean reward,
    times 1 + 4 / n. The statistic is a CUSUM, S ← max(0, S + min(4, e / σ) − 1). The finding opens at S > 8 if the fit
    explains four fifths of the variance of the reward, and if the newest two excesses are above a fifth of the mean
    reward. It is critical once three successive excesses are above the mean reward and above 20 σ.

    A reward for length, format or style causes this if it is too large, if somebody has changed it, or if the policy
    has learned to exploit it. If the reward has several parts that vary on their own, for example while a format is
    still being learned, correct responses do not explain it, and the detector is silent. The finding ends after three
    rows with an excess under 2 σ, or after 40 rows, when the new relation becomes the baseline. Further passes over the
    same responses do not count.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> correct = [0.2, 0.3, 0.25, 0.35, 0.3] * 6
    >>> reward = [0.1 + c for c in correct[:20]] + [0.1 + c + 0.05 * row for row, c in enumerate(correct[20:])]
    >>> episodes(RewardDetachment(), {"reward/mean": reward, "reward/correct_frac": correct})
    [(23, 'reward_hacking', 'warning')]
    """

    kind = "reward_hacking"
    severity = Severity.WARNING
    reads = (REWARD, CORRECT)
    skips_rows_without = True
    SLACK, CAP, THRESHOLD, EXPLAINED, LEAST_SHARE = 1.0, 4.0, 8.0, 0.8, 0.2
    LARGE, LARGE_ROWS, QUIET, QUIET_ROWS, HELD_ROWS = 20.0, 3, 2.0, 3, 40

    def __init__(self) -> None:
        super().__init__()
        self.fit = _Fit()
        self.cusum = Cusum(slack=self.SLACK, cap=self.CAP)
        self.before: Pass = []
        self.excess = 0.0
        self.last_excess = 0.0
        self.opened: int | None = None
        self.since: int | None = None  # the onset of the finding that holds
        self.large = 0
        self.quiet = 0
        self.rows = 0
        self.is_critical = False

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        reward, correct = observation.finite.get(REWARD), observation.finite.get(CORRECT)
        if reward is None or correct is None:
            return ()
        now = read_pass(observation.finite)
        is_repeated, self.before = is_further_pass(now, self.before), now
        if not is_repeated:
            self._follow(reward, correct, observation.step)
        return [self._build_finding(observation, reward, correct)] if self.opened is not None else ()

    def _follow(self, reward: float, correct: float, step: int) -> None:
        """Add the reward of new responses, and open or end the finding."""
        fit = self.fit
        if self.opened is None:
            fit.update(reward, correct, is_needed=self.cusum.value > 0.0)
        if not fit.is_known:
            return
        self.last_excess, self.excess = self.excess, reward - fit.explain(correct)
        errors = self.excess / fit.deviation
        self.cusum.update(errors, step)
        is_large = errors > self.LARGE and self.excess > abs(fit.reward) and fit.explained >= self.EXPLAINED
        self.large = self.large + 1 if is_large else 0
        if self.opened is None:
            least = self.LEAST_SHARE * abs(fit.reward)
            is_explained = fit.explained >= self.EXPLAINED
            if self.cusum.value > self.THRESHOLD and is_explained and min(self.excess, self.last_excess) > least:
                self.opened, self.since, self.rows, self.quiet = step, self.cusum.since, 0, 0
        else:
            self.rows += 1
            self.quiet = self.quiet + 1 if errors < self.QUIET else 0
        if self.opened is not None:
            self.is_critical = self.is_critical or self.large >= self.LARGE_ROWS
            if self.quiet >= self.QUIET_ROWS or self.rows >= self.HELD_ROWS:
                self._restart()

    def _build_finding(self, observation: Observation, reward: float, correct: float) -> Finding:
        fit, since = self.fit, self.opened if self.since is None else self.since
        begin = f"Since step {since} the reward is too high: it is"
        if self.quiet:
            begin = f"From step {since} on the reward was too high: it is now"
        return self._finding(
            observation,
            f"{begin} {reward:.3g}, and {fit.explain(correct):.3g} is usual for {correct:.0%} of correct responses. "
            "Look for a shortcut or a changed reward.",
            severity=Severity.CRITICAL if self.is_critical else self.severity,
            signal=REWARD,
            baseline=fit.explain(correct),
            window=len(fit.rewards),
            statistic=self.cusum.value,
            threshold=self.THRESHOLD,
            level=reward,
            explained=fit.explained,
            onset=[since, self.opened],
            arithmetic="r = a + s c over 40 rows with R2 >= 0.8, S = max(0, S + min(4, e / sigma) - 1) > 8, e > r / 5 "
            "in two rows; critical: e > r and e > 20 sigma in three rows",
        )

    def _restart(self) -> None:
        self.fit.restart()
        self.cusum.reset()
        self.excess, self.last_excess, self.large, self.opened, self.is_critical = 0.0, 0.0, 0, None, False

    def _resume(self, step: int) -> None:
        if self.opened is not None and step <= self.opened:
            self._restart()
        elif self._replaces_rows(step) and self.opened is None:
            self.cusum.reset()
            self.large = 0

    def _rebaseline(self) -> None:
        self._restart()


class _Fit(Stateful):
    """The line r = a + s c over a window that ends two rows before the newest.

    It is fitted again after eight rows, or after every row of the first 24, but only if the earlier line does not
    explain the reward of the newest row, or if the fit is needed. Otherwise it is fitted after 40 rows.
    """

    ROWS, LAG, LEAST, EVERY, EARLY, FLOOR, LEAST_REWARD = 40, 2, 6, 8, 24, 0.02, 0.05

    def __init__(self) -> None:
        self.rewards: deque[float] = deque(maxlen=self.ROWS + self.LAG)
        self.corrects: deque[float] = deque(maxlen=self.ROWS + self.LAG)
        self.seen = 0
        self.age = 0  # rows since the line was fitted
        self.reward = 0.0  # means of the window
        self.correct = 0.0
        self.slope = 0.0
        self.deviation = 0.0
        self.explained = 0.0  # share of the variance of the reward

    @property
    def is_known(self) -> bool:
        """Whether there is a line."""
        return self.deviation > 0.0

    def explain(self, correct: float) -> float:
        """Return the reward that the line gives for a share of correct responses."""
        return self.reward + self.slope * (correct - self.correct)

    def update(self, reward: float, correct: float, *, is_needed: bool) -> None:
        """Fit the line if it is due, then add one row."""
        self.age += 1
        if len(self.rewards) >= self.LEAST + self.LAG and (self.seen <= self.EARLY or self.age >= self.EVERY):
            is_needed = is_needed or self.age >= self.ROWS or not self.is_known
            if is_needed or reward - self.explain(correct) > self.deviation:
                self._solve(list(self.rewards)[: -self.LAG], list(self.corrects)[: -self.LAG])
                self.age = 0
        self.rewards.append(reward)
        self.corrects.append(correct)
        self.seen += 1

    def _solve(self, rewards: list[float], corrects: list[float]) -> None:
        n = len(rewards)
        self.reward, self.correct = sum(rewards) / n, sum(corrects) / n
        above = [value - self.reward for value in rewards]
        more = [value - self.correct for value in corrects]
        spread, total = sum(map(mul, more, more)), sum(map(mul, above, above))
        self.slope = sum(map(mul, above, more)) / spread if spread > 0.0 else 0.0
        rest = [high - self.slope * wide for high, wide in zip(above, more, strict=True)]
        left = sum(map(mul, rest, rest))
        self.explained = 1.0 - left / total if total > 0.0 else 0.0
        least = self.FLOOR * max(abs(self.reward), self.LEAST_REWARD)
        self.deviation = max(least, math.sqrt(left / (n - 2))) * (1.0 + 4.0 / n)

    def take_back(self, rows: int, left: int) -> None:
        """Forget the newest rows; the line is fitted to the others when it is needed next."""
        super().take_back(rows, left)
        take_newest(self.rewards, rows)
        take_newest(self.corrects, rows)
        self.seen, self.age, self.deviation = len(self.rewards), self.ROWS, 0.0

    def restart(self) -> None:
        """Discard the rows and the line."""
        self.rewards.clear()
        self.corrects.clear()
        self.seen, self.age, self.deviation = 0, 0, 0.0
