"""What the likelihood of correct responses lost beyond entropy: what tells displacement from exploration."""

import math

from monitor_server.detection.parts.base import finite
from monitor_server.detection.parts.stateful import Stateful
from monitor_server.detection.parts.statistics import Ema, History
from monitor_server.detection.protocol import Observation

__all__ = ["ENTROPY", "LIKELIHOOD", "Excess"]

ENTROPY, LIKELIHOOD = "entropy/mean", "likelihood/correct"
ALPHA = 0.05
ERROR = math.sqrt(2.0 * ALPHA / (2.0 - ALPHA))  # of the difference of two such averages of white noise, in its σ
LEAST_ROWS, STALE_ROWS = 8, 5
MOST, PER_DOUBT = 3.0, 4.0  # standard errors: what counts at most, and what a drift's statistic grows e-fold for


class Excess(Stateful):
    """Weighs a drift of entropy by what the likelihood of correct responses lost beyond it.

    x = −l⁺ − H, nats per token, and z its rise EMA₀.₀₅(x) − EMA₀.₀₅(x)₀ since the drift began, in standard errors
    σ √(2α / (2 − α)), at most ±3. Over all of a policy's own responses E[−ln π] is H, so where a policy merely
    flattens, as exploration and harder prompts do, correct responses lose no more than H gains, and x stands still or
    falls. In displacement they lose more. The weight is e^{z/4}: 0.47 to 2.1, and 1 while either signal is missing.

    Args:
        turn: Which row of eight estimates the noise anew.

    Reference:
        arXiv 2512.04220, Definition 4.1 (lazy likelihood displacement) and section 5.1.
    """

    def __init__(self, turn: int = 0) -> None:
        self.average = Ema(ALPHA)
        self.history = History(length=60, lag=0, floor=1e-4, turn=turn, momentum=False)
        self.before: float | None = None
        self.unheard = 0

    def update(self, observation: Observation) -> None:
        """Take one step."""
        entropy = finite(observation.signals, ENTROPY)
        likelihood = finite(observation.signals, LIKELIHOOD)
        self.unheard += 1
        if entropy is not None and likelihood is not None:
            self.unheard = 0
            self.average.update(-likelihood - entropy)
            self.history.append(-likelihood - entropy)

    def mark(self) -> None:
        """Learn that no drift is under way: a later one is measured from here."""
        self.before = self.average.value if self.average.count >= LEAST_ROWS else None

    def restart(self) -> None:
        """Forget the levels: they changed their meaning."""
        self.average, self.before = Ema(ALPHA), None
        self.history.clear()

    @property
    def errors(self) -> float:
        """z, the rise in standard errors."""
        if self.before is None or self.average.value is None or not self.history.scale or self.unheard > STALE_ROWS:
            return 0.0
        rise = self.average.value - self.before
        return max(-MOST, min(MOST, rise / (self.history.scale * ERROR)))

    @property
    def weight(self) -> float:
        """What a drift's statistic is multiplied by."""
        return math.exp(self.errors / PER_DOUBT)
