"""Sudden silence: from one row to the next no reward differs within its group any more, so nothing is learned."""

import math
from collections import deque
from collections.abc import Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.base_classes.passes import Pass, is_further_pass, read_pass
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.rarity import LEAST
from monitor_server.detection.statistics.state import take_newest

__all__ = ["SuddenSilence"]

SHARE = "reward/zero_std_frac"


class SuddenSilence(StreamDetector):
    """Warns when all groups lose their variance of reward at once; critical when they remain without it.

    A grader that returns a constant, a sampler at temperature 0 and an environment without answers cause this from one
    row to the next. Learning causes it slowly, and `SilentGroups` reports that. The rule: each of the newest m rows has
    a share of exactly 1, and none of the n ≤ 40 rows before them was above three quarters. Their
    `rarity` is (1 / (n + 2))^m: under 1 in 10,000 it warns, under 1 in 100,000 it is critical. After 40 rows of
    baseline these are 3 and 4 rows.

    A run with one or two groups in each step has often been silent, and is never reported. Rows with the reward and
    length of the row before, and an entropy that differs by at most 2 %, are further passes over the same responses and
    do not count. The finding ends with the first row in which rewards differ.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(SuddenSilence(), {"reward/zero_std_frac": [0.1, 0.2, 0.0, 0.1] * 10 + [1.0] * 4})
    [(42, 'reward_signal_dead', 'warning'), (43, 'reward_signal_dead', 'critical')]
    """

    kind = "reward_signal_dead"
    severity = Severity.WARNING
    reads = (SHARE,)
    skips_rows_without = True
    MOST, WARNING, CRITICAL, ROWS = 0.75, 1e-4, 1e-5, 40

    def __init__(self) -> None:
        super().__init__()
        self.shares: deque[float] = deque(maxlen=self.ROWS)
        self.silent = 0
        self.opened: int | None = None
        self.before: Pass = []

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        share = observation.finite.get(SHARE)
        if share is None:
            return ()
        if share < 1.0:
            self.shares.extend([1.0] * min(self.silent, self.ROWS))
            self.shares.append(share)
            self.silent, self.opened = 0, None
            return ()
        now = read_pass(observation.finite)
        if not (self.silent and is_further_pass(now, self.before)):
            self.silent += 1
        self.before = now
        self.opened = observation.step if self.opened is None else self.opened
        rarity = self._rarity()
        return [self._build_finding(observation, rarity)] if rarity < self.WARNING else ()

    def _rarity(self) -> float:
        rows = len(self.shares)
        if rows < LEAST or max(self.shares) > self.MOST:
            return 1.0
        return max(1e-12, (1.0 / (rows + 2.0)) ** min(self.silent, self.ROWS))

    def _build_finding(self, observation: Observation, rarity: float) -> Finding:
        is_critical = rarity < self.CRITICAL
        return self._finding(
            observation,
            f"No reward differs within its group since step {self.opened}; "
            f"before, this was true of at most {max(self.shares):.0%} of the groups.",
            severity=Severity.CRITICAL if is_critical else Severity.WARNING,
            signal=SHARE,
            baseline=max(self.shares),
            window=len(self.shares),
            statistic=-math.log10(rarity),
            threshold=-math.log10(self.CRITICAL if is_critical else self.WARNING),
            rarity=rarity,
            rows=self.silent,
            onset=[self.opened, self.opened],
            arithmetic="m rows of 1, none of n rows before above 3/4: (1 / (n + 2))^m < 0.0001, critical < 0.00001",
        )

    def _resume(self, step: int) -> None:
        rows = self._order.count_replaced(step)
        if self.opened is not None and step > self.opened:
            self.silent = max(1, self.silent - rows)  # the rows before the silence are left
            return
        take_newest(self.shares, rows - self.silent)
        self.silent, self.opened = 0, None

    def _rebaseline(self) -> None:
        self.shares.clear()
        self.silent, self.opened = 0, None
