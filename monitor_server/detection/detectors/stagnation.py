"""Stagnation (phase I): the reward rises while entropy and likelihood stay constant. It is never an alarm."""

import math
from collections.abc import Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.history import History
from monitor_server.detection.statistics.robust import line

__all__ = ["Stagnation"]

CHANNELS = ("entropy/mean", "likelihood/correct")
REWARD = "reward/mean"


class Stagnation(StreamDetector):
    """Informs when the reward has risen for 20 rows and the likelihood has not followed.

    The slope of the reward over 40 rows is above 1.645 standard errors and every slope of the likelihood side is within
    one, for 20 rows in succession. Stagnation alone predicts nothing: it occurs in healthy runs, so it must not notify.

    Reference:
        arXiv 2512.04220, section 5.1 (phase I).

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> wiggle = [0.001 * (1, -1, -1, 1)[row % 4] for row in range(60)]
    >>> series = {"reward/mean": [0.2 + 0.005 * row + w for row, w in enumerate(wiggle)],
    ...           "entropy/mean": [0.4 + w for w in wiggle]}
    >>> episodes(Stagnation(), series)
    [(38, 'likelihood_stagnation', 'info')]
    """

    kind = "likelihood_stagnation"
    severity = Severity.INFO
    reads = (REWARD, *CHANNELS)
    ROWS = 20
    SLOPE_95 = 1.645

    def __init__(self) -> None:
        super().__init__()
        self.histories = {
            name: History(length=40, lag=0, least=20, floor=1e-4, turn=turn) for turn, name in enumerate(self.reads)
        }
        self.lasting = 0
        self.since: int | None = None

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        get = observation.finite.get
        for name, history in self.histories.items():
            value = get(name)
            if value is not None:
                history.append(value)
        holds = self._rises() and self._stands_still()
        self.lasting = self.lasting + 1 if holds else 0
        if self.lasting == 1:
            self.since = observation.step
        if self.lasting < self.ROWS:
            return ()
        slopes = {name: s for name, history in self.histories.items() if (s := _slope(history)) is not None}
        return [
            self._finding(
                observation,
                f"The reward has risen since step {self.since} while likelihood and entropy stood still.",
                signal=REWARD,
                baseline=self.histories[REWARD].baseline(),
                window=len(self.histories[REWARD].values),
                statistic=slopes[REWARD],
                threshold=self.SLOPE_95,
                slopes=slopes,
                agreeing=[name for name in CHANNELS if name in slopes],
                onset=[self.since, self.since],
                arithmetic="slope(reward) / SE > 1.645 and |slope(l, H)| / SE < 1 for 20 rows",
            )
        ]

    def _rises(self) -> bool:
        """Return whether the reward rises beyond its noise, and there is a signal to compare it with."""
        history = self.histories[REWARD]
        if not history.has_scale or not any(self.histories[name].has_baseline for name in CHANNELS):
            return False
        slope = _line_slope(history)
        # The lower bound of the scale decides most rows, and costs less than the scale.
        if slope is None or slope <= self.SLOPE_95 * history.least_scale:
            return False
        return slope / (history.scale or math.inf) > self.SLOPE_95

    def _stands_still(self) -> bool:
        """Return whether at least one signal of the likelihood side is known, and none of them has a slope."""
        is_known = False
        for name in CHANNELS:
            slope = _slope(self.histories[name])
            if slope is not None:
                if abs(slope) >= 1.0:
                    return False
                is_known = True
        return is_known

    def _rebaseline(self) -> None:
        for history in self.histories.values():
            history.clear()
        self.lasting = 0

    def _resume(self, step: int) -> None:
        if self._replaces_rows(step):
            self.lasting = 0


def _line_slope(history: History) -> float | None:
    """Return the slope of the kept values times √Σ(t − t̄)², whose standard error is the noise; None if unknown."""
    if not history.has_baseline:
        return None
    values = history.lagged_values()
    n = len(values)
    return line(values)[1] * math.sqrt(n * (n * n - 1) / 12)


def _slope(history: History) -> float | None:
    """Return the slope of the kept values in its standard errors; None if it is unknown."""
    slope = _line_slope(history) if history.has_scale else None
    scale = history.scale
    return slope / scale if slope is not None and scale else None
