"""Phase I: the reward rises while entropy and likelihood stand still. Information, never an alarm."""

import math
from collections.abc import Sequence

from monitor_server.detection.parts.base import StreamDetector, finite
from monitor_server.detection.parts.statistics import History, line
from monitor_server.detection.protocol import Finding, Observation, Severity

__all__ = ["Stagnation"]

CHANNELS = ("entropy/mean", "likelihood/correct")
REWARD = "reward/mean"


class Stagnation(StreamDetector):
    """Says when the reward has risen for 20 rows and the likelihood has not followed.

    Reward slope over 40 rows above 1.645 standard errors, every likelihood-side slope within one, for 20 rows in a
    row. Stagnation alone foretells nothing: healthy runs show it too, so it must not notify.

    Reference:
        arXiv 2512.04220, section 5.1 (phase I).
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
        for name, history in self.histories.items():
            value = finite(observation.signals, name)
            if value is not None:
                history.append(value)
        slopes = {name: slope for name, h in self.histories.items() if (slope := _slope(h)) is not None}
        likelihood = [slopes[name] for name in CHANNELS if name in slopes]
        holds = bool(likelihood) and slopes.get(REWARD, 0.0) > self.SLOPE_95 and max(map(abs, likelihood)) < 1.0
        self.lasting = self.lasting + 1 if holds else 0
        if self.lasting == 1:
            self.since = observation.step
        if self.lasting < self.ROWS:
            return ()
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

    def _rebaseline(self) -> None:
        for history in self.histories.values():
            history.clear()
        self.lasting = 0

    def _resume(self, step: int) -> None:
        if self.step is not None and step <= self.step:
            self._rebaseline()


def _slope(history: History) -> float | None:
    """Give the slope of the kept values in its standard errors."""
    values = history.lagged()
    if not values or history.scale is None:
        return None
    n = len(values)
    return line(values)[1] * math.sqrt(n * (n * n - 1) / 12) / history.scale
