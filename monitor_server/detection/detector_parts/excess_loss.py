"""Excess loss: the likelihood that correct responses lost beyond entropy, which exploration does not explain."""

import math
from collections.abc import Mapping
from typing import Any

from monitor_server.detection.protocol import Observation
from monitor_server.detection.statistics.history import History
from monitor_server.detection.statistics.state import Stateful
from monitor_server.detection.statistics.streaming import Ema

__all__ = ["ENTROPY", "LARGEST_WEIGHT", "LIKELIHOOD", "Excess"]

ENTROPY, LIKELIHOOD = "entropy/mean", "likelihood/correct"
ALPHA = 0.05
ERROR = math.sqrt(2.0 * ALPHA / (2.0 - ALPHA))  # of the difference of two such averages of white noise, in its σ
LEAST_ROWS, STALE_ROWS = 8, 5
MOST = 3.0  # the largest number of standard errors that counts
ERRORS_PER_E_FOLD = 4.0  # standard errors for which a drift's statistic grows e-fold
LARGEST_WEIGHT = 1.000001 * math.exp(MOST / ERRORS_PER_E_FOLD)  # slightly more, against rounding


class Excess(Stateful):
    """Weighs a drift of entropy by the likelihood that correct responses lost beyond it.

    Let x = −l⁺ − H, in nats per token, and z its rise EMA₀.₀₅(x) − EMA₀.₀₅(x)₀ since the drift began, in standard
    errors σ √(2α / (2 − α)), at most ±3. Over all of a policy's own responses E[−ln π] = H. If a policy only becomes
    flatter, as in exploration and on harder prompts, correct responses lose no more than H gains, and x stays or falls.
    In displacement they lose more. The weight is e^{z/4}, from 0.47 to 2.1, and 1 while either signal is missing.

    Args:
        turn: The row of each eight at which the noise is estimated.

    Reference:
        arXiv 2512.04220, Definition 4.1 (lazy likelihood displacement) and section 5.1.
    """

    def __init__(self, turn: int = 0) -> None:
        self.average = Ema(ALPHA)
        self.history = History(length=60, lag=0, floor=1e-4, turn=turn, momentum=False)
        self.before: float | None = None
        self.unheard = 0
        self._errors: float | None = None  # of the present row, once they were read

    def update(self, observation: Observation) -> None:
        """Process one step."""
        entropy = observation.finite.get(ENTROPY)
        likelihood = observation.finite.get(LIKELIHOOD)
        self.unheard += 1
        self._errors = None
        if entropy is not None and likelihood is not None:
            self.unheard = 0
            self.average.update(-likelihood - entropy)
            self.history.append(-likelihood - entropy)

    def mark(self) -> None:
        """Record the present level as the reference, because there is no drift now."""
        self.before, self._errors = self.average.value if self.average.count >= LEAST_ROWS else None, None

    def restart(self) -> None:
        """Discard the levels, because they changed their meaning."""
        self.average, self.before, self._errors = Ema(ALPHA), None, None
        self.history.clear()

    @property
    def errors(self) -> float:
        """z, the rise in standard errors."""
        if self._errors is None:
            self._errors = self._measure_errors()
        return self._errors

    def _measure_errors(self) -> float:
        if self.before is None or self.average.value is None or self.unheard > STALE_ROWS:
            return 0.0
        if self.average.count < LEAST_ROWS:  # after a rewind
            return 0.0
        rise, scale = self.average.value - self.before, self.history.scale
        return max(-MOST, min(MOST, rise / (scale * ERROR))) if scale else 0.0

    @property
    def weight(self) -> float:
        """The factor by which a drift's statistic is multiplied."""
        return math.exp(self.errors / ERRORS_PER_E_FOLD)

    def take_back(self, rows: int, left: int) -> None:
        """Forget the newest rows; the reference stays."""
        super().take_back(rows, left)
        self._errors = None

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; z is computed again."""
        super().load(state)
        self._errors = None
