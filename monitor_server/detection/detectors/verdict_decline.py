"""Verdict decline: the likelihood gap between correct and incorrect responses shrinks row after row."""

from collections.abc import Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.base_classes.passes import Pass, is_further_pass, read_pass
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.history import History
from monitor_server.detection.statistics.robust import median
from monitor_server.detection.statistics.streaming import Cusum

__all__ = ["VerdictDecline"]

CORRECT, INCORRECT = "likelihood/correct", "likelihood/incorrect"


class VerdictDecline(StreamDetector):
    """Warns when the gap of log-likelihood between correct and incorrect responses declines by a sixth, beyond noise.

    `VerdictGap` finds a grader that fails at once. The gap shrinks slowly if a grader fails more and more, if a growing
    part of an answer key is wrong, or if the questions come from another source. With the gap g = l⁺ − l⁻, its lagged
    median b and its noise σ, both of up to 60 rows, the statistic is a CUSUM of the shortfall:

        S ← min(20, max(0, S + min(4, (b − g) / σ) − 1))

    The finding opens at S > 10 while the median of three gaps is under 0.85 b and b is at least half a nat per token,
    and ends when S is back at 0. Further passes over the same responses do not count.

    Reference:
        Page, "Continuous inspection schemes" (1954).

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> correct = [-0.2, -0.3, -0.2, -0.1] * 5 + [-0.2 - 0.04 * row for row in range(20)]
    >>> episodes(VerdictDecline(), {"likelihood/correct": correct, "likelihood/incorrect": [-1.2] * 40})
    [(31, 'reward_signal_dead', 'warning')]
    """

    kind = "reward_signal_dead"
    severity = Severity.WARNING
    reads = (CORRECT, INCORRECT)
    skips_rows_without = True
    FLOOR = 0.05  # nat per token
    SLACK, CAP, THRESHOLD, MOST, SHARE, LEAST, ROWS = 1.0, 4.0, 10.0, 20.0, 0.85, 0.5, 3

    def __init__(self) -> None:
        super().__init__()
        self.history = History(length=60, lag=4, least=6, floor=self.FLOOR, momentum=False, turn=2)
        self.cusum = Cusum(slack=self.SLACK, cap=self.CAP)
        self.before: Pass = []
        self.from_level = 0.0
        self.opened: int | None = None

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        correct, incorrect = observation.finite.get(CORRECT), observation.finite.get(INCORRECT)
        if correct is None or incorrect is None:
            return ()
        now = read_pass(observation.finite)
        is_repeated, self.before = is_further_pass(now, self.before), now
        gap = correct - incorrect
        if not is_repeated:
            self._follow(gap, observation.step)
        return [self._build_finding(observation, gap)] if self.opened is not None else ()

    def _follow(self, gap: float, step: int) -> None:
        """Add the gap of new responses, and open or end the finding."""
        history, cusum = self.history, self.cusum
        baseline = history.baseline()
        # A shortfall within the slack adds nothing to a sum of 0, and a noise scale costs more than all other work
        # here.
        needs_scale = baseline is not None and (cusum.value > 0.0 or baseline - gap > self.SLACK * self.FLOOR)
        scale = history.scale if needs_scale else None
        history.append(gap)
        if baseline is None or scale is None:
            return
        cusum.update((baseline - gap) / scale, step)
        cusum.value = min(self.MOST, cusum.value)
        if cusum.value == 0.0:
            self.opened = None
        elif self.opened is None and cusum.value > self.THRESHOLD and baseline >= self.LEAST:
            is_low = median(list(history.values)[-self.ROWS :]) < self.SHARE * baseline
            self.opened, self.from_level = (step if is_low else None), baseline

    def _build_finding(self, observation: Observation, gap: float) -> Finding:
        return self._finding(
            observation,
            f"Correct responses were likelier than incorrect ones by {self.from_level:.3g} nat per token, and this has "
            f"declined to {gap:.3g} since step {self.cusum.since}: look at the grader and the answers.",
            signal=CORRECT,
            baseline=self.from_level,
            window=len(self.history.values),
            statistic=self.cusum.value,
            threshold=self.THRESHOLD,
            level=gap,
            onset=[self.cusum.since, self.opened],
            arithmetic="S = max(0, S + min(4, (b - g) / sigma) - 1) > 10, median of 3 gaps < 0.85 b, b >= 0.5 nat",
        )

    def _resume(self, step: int) -> None:
        if self.opened is not None and step <= self.opened:
            self.opened = None
        if self._replaces_rows(step) and self.opened is None:
            self.cusum.reset()

    def _rebaseline(self) -> None:
        self.history.clear()
        self.cusum.reset()
        self.opened = None
