"""Entropy collapse: the policy has become deterministic and cannot learn any more."""

from collections import deque
from collections.abc import Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.history import History
from monitor_server.detection.statistics.robust import median
from monitor_server.detection.statistics.state import take_newest

__all__ = ["EntropyCollapse"]

ENTROPY = "entropy/mean"
SLOW_WINDOW = 100  # rows in which a decline is too fast to be learning


class EntropyCollapse(StreamDetector):
    """Warns when token entropy falls below 5 % of its baseline and 0.05 nat at once; critical when it is frozen.

    Entropy below 0.001 nat counts as 0.001: a policy that had 0.02 nat left has nothing more to lose, and the ratio to
    a rounded zero is not a meaningful strength. A fixed floor would be wrong: successful runs start at 0.4 to 0.5 nat
    and end below 0.1 over hundreds of rows, and there the lagged baseline follows. Frozen means below 0.001 nat for 3
    rows: sampling returns the same tokens, advantages are zero, and nothing in the run can restore the entropy.

    The slow form warns when five successive rows lie below 0.05 nat and below 10 % of what the entropy was up to 100
    rows ago (the median of the oldest 20 of them). A decline that takes longer is learning, and is not reported. The
    finding ends after 3 rows above twice the share of the baseline.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(EntropyCollapse(), {"entropy/mean": [0.5] * 6 + [0.0001] * 4})
    [(6, 'entropy_collapse', 'warning'), (8, 'entropy_collapse', 'critical')]
    """

    kind = "entropy_collapse"
    severity = Severity.WARNING
    reads = (ENTROPY,)
    skips_rows_without = True
    SHARE, LOW, FROZEN, FROZEN_ROWS, QUIET_ROWS = 0.05, 0.05, 0.001, 3, 3
    SLOW_SHARE, SLOW_ROWS, OLDEST_ROWS = 0.1, 5, 20

    def __init__(self) -> None:
        super().__init__()
        self.history = History(length=40, lag=2, least=3, estimates_noise=False)
        self.past: deque[float] = deque(maxlen=SLOW_WINDOW)
        self.share = self.SHARE  # the share of the baseline under which the finding opened
        self.from_level: float | None = None
        self.opened: int | None = None
        self.frozen = 0
        self.quiet = 0

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        entropy = observation.finite.get(ENTROPY)
        if entropy is None or entropy < 0.0:  # some trainers log the loss term, which is the negative entropy
            return ()
        baseline = self.history.baseline() if self.from_level is None else self.from_level
        self.history.append(entropy)
        self.past.append(entropy)
        if baseline is None:
            return ()
        collapsed = entropy < self.LOW and max(entropy, self.FROZEN) < self.SHARE * baseline
        may_be_slow = entropy < self.LOW and self.from_level is None and not collapsed
        slowly = self._slow_baseline() if may_be_slow else None
        is_frozen = self.frozen >= self.FROZEN_ROWS and self.from_level is not None
        self.frozen = self.frozen + 1 if entropy < self.FROZEN or is_frozen else 0
        self.quiet = self.quiet + 1 if entropy > 2 * self.share * baseline else 0
        if collapsed and self.from_level is None:
            self.from_level, self.opened, self.share = baseline, observation.step, self.SHARE
        elif slowly is not None:
            self.from_level, self.opened, self.share = slowly, observation.step, self.SLOW_SHARE
            baseline = slowly
        elif self.quiet >= self.QUIET_ROWS:
            self._close()
        return [self._build_finding(observation, entropy, baseline)] if self.from_level is not None else ()

    def _slow_baseline(self) -> float | None:
        """Return the level from which entropy declined within 100 rows, or None if it did not decline that far."""
        values = list(self.past)
        before, newest = values[: -self.SLOW_ROWS], values[-self.SLOW_ROWS :]
        if len(before) < self.SLOW_ROWS:
            return None
        level = median(before[: self.OLDEST_ROWS])
        return level if max(newest) < min(self.LOW, self.SLOW_SHARE * level) else None

    def _build_finding(self, observation: Observation, entropy: float, baseline: float) -> Finding:
        frozen = self.frozen >= self.FROZEN_ROWS
        state = "is frozen" if frozen else "has collapsed"
        return self._finding(
            observation,
            f"Entropy {state}: {entropy:.3g} nat per token, from {baseline:.3g} before step {self.opened}.",
            severity=Severity.CRITICAL if frozen else self.severity,
            signal=ENTROPY,
            baseline=baseline,
            window=len(self.history.values),
            statistic=baseline / max(entropy, self.FROZEN),
            threshold=1.0 / self.share,
            frozen_rows=self.frozen,
            onset=[self.opened, self.opened],
            arithmetic="H < 0.05 nat and b / max(H, 0.001) > 20, or 10 in 100 rows; frozen: H < 0.001 nat for 3 rows",
        )

    def _resume(self, step: int) -> None:
        if self.opened is not None and step <= self.opened:
            self._close()
        if self._replaces_rows(step):
            self.frozen = 0

    def take_back(self, rows: int, left: int) -> None:
        """Forget the newest rows."""
        super().take_back(rows, left)
        take_newest(self.past, rows)

    def _close(self) -> None:
        self.from_level, self.opened, self.frozen = None, None, 0

    def _rebaseline(self) -> None:
        self.history.clear()
        self.past.clear()
