"""The end: the reward has fallen below half of its best and stays there."""

import math
from collections.abc import Sequence

from monitor_server.detection.base import StreamDetector, finite
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics import Ema, History

__all__ = ["RunCollapsed"]

REWARD = "reward/mean"
WITNESSES = ("grad/norm", "entropy/mean", "length/mean", "ratio/clip_frac", "kl/ref", "reward/zero_std_frac")


class RunCollapsed(StreamDetector):
    """Says that a run is dead: EMA₀.₂(reward) under half of its best for 5 rows, beyond noise, and not alone.

    Half is counted from the run's floor (0, or its lowest average where rewards are negative). The fall must exceed
    four standard errors of the average, and another mechanism must have moved too: the gradient vanished, or gradient,
    entropy, length, clip share or KL left its lagged baseline by 4 noise scales. On sparse, noisy rewards the first
    condition alone pages in one healthy run of five. It ends when the reward is back above three quarters.

    This is a statement, not a forecast: it has no lead time.
    """

    kind = "run_collapsed"
    severity = Severity.CRITICAL
    reads = (REWARD, *WITNESSES)
    SHARE, BACK, ROWS, ERRORS, APART = 0.5, 0.75, 5, 4.0, 4.0

    def __init__(self) -> None:
        super().__init__()
        self.average = Ema(0.2)
        self.history = History(length=60, lag=0, floor=1e-6)
        self.witnesses = {name: History(length=60, lag=8, floor=1e-6) for name in WITNESSES}
        self.best: float | None = None
        self.floor = 0.0
        self.best_step: int | None = None
        self.below = 0
        self.since: int | None = None
        self.agreeing: list[str] = []
        self.active = False

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        moved = self._witness(observation)
        reward = finite(observation.signals, REWARD)
        if reward is None:
            return ()
        level = self.average.update(reward)
        self.history.append(reward)
        if self.history.scale is None:
            return ()
        if self.best is None or level > self.best:
            self.best, self.best_step = level, observation.step
        self.floor = min(self.floor, level)
        self._judge(level, moved, observation.step)
        return [self._dead(observation, level)] if self.active else ()

    def _judge(self, level: float, moved: list[str], step: int) -> None:
        best = self.best or 0.0
        share = (level - self.floor) / (best - self.floor) if best > self.floor else 1.0
        beyond_noise = best - level > self.ERRORS * self._error()
        low = share < self.SHARE and beyond_noise
        self.below = self.below + 1 if low else 0
        if self.below == 1:
            self.since, self.agreeing = step, []
        if low:
            self.agreeing = sorted({*self.agreeing, *moved})
        if self.below >= self.ROWS and self.agreeing:
            self.active = True
        elif share > self.BACK:
            self.active = False

    def _error(self) -> float:
        """Give the standard error of the average: σ √(α / (2 − α))."""
        return (self.history.scale or 0.0) * math.sqrt(0.2 / 1.8)

    def _witness(self, observation: Observation) -> list[str]:
        moved = []
        for name, history in self.witnesses.items():
            value = finite(observation.signals, name)
            if value is None:
                continue
            innovation = history.innovation(value, trend=False)
            history.append(value)
            dead = name == "grad/norm" and value == 0.0
            if dead or (innovation is not None and abs(innovation) > self.APART):
                moved.append(name)
        return moved

    def _dead(self, observation: Observation, level: float) -> Finding:
        best = self.best or 0.0
        return self._finding(
            observation,
            f"The reward fell from {best:.3g} at step {self.best_step} to {level:.3g} and stays there.",
            signal=REWARD,
            baseline=best,
            window=self.below,
            statistic=(best - level) / (best - self.floor) if best > self.floor else 1.0,
            threshold=self.SHARE,
            error=self._error(),
            agreeing=self.agreeing,
            onset=[self.since, self.since],
            arithmetic="EMA(r) < best / 2 for 5 rows, best - EMA(r) > 4 SE, and a second mechanism",
        )

    def _resume(self, step: int) -> None:
        if self.since is not None and step <= self.since:
            self.active, self.below, self.since = False, 0, None
            self.average.value = self.best

    def _rebaseline(self) -> None:
        if not self.active:
            self.average, self.best, self.below, self.floor = Ema(0.2), None, 0, 0.0
