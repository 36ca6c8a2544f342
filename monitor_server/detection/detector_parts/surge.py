"""Surges: one channel exceeds its own prediction, row after row. `DeathSpiral` combines several of them."""

import math
from collections.abc import Mapping

from monitor_server.detection.base_classes.readings import first_finite
from monitor_server.detection.statistics.history import History
from monitor_server.detection.statistics.state import Stateful
from monitor_server.detection.statistics.streaming import Cusum

__all__ = ["Surge", "update_channels", "update_surge"]

RATIOS = ("ratio/p999", "ratio/max")


class Surge(Stateful):
    """A CUSUM of prediction errors that counts only while the recent median is clearly above the baseline.

    Args:
        slack: Slack of the CUSUM, in standard errors.
        floor: Smallest noise assumed, in the channel's unit.
        length: Rows of history.
        lag: Number of newest rows left out of the baseline.
        trend: Whether a trend is part of the prediction.
        least_rise: The smallest rise of the newest rows' median above the baseline, in the channel's unit.
        turn: The row of each eight at which the noise is estimated.
        momentum: Whether the channel accumulates.
    """

    def __init__(
        self,
        *,
        slack: float,
        floor: float,
        length: int = 45,
        lag: int = 5,
        trend: bool = True,
        least_rise: float = -math.inf,
        turn: int,
        momentum: bool = True,
    ) -> None:
        self._trend = trend
        self._least_rise = least_rise
        self.history = History(length=length, lag=lag, floor=floor, turn=turn, momentum=momentum)
        self.cusum = Cusum(slack=slack, cap=3.0)

    def update(self, x: float, step: int) -> None:
        """Add one value."""
        history, cusum = self.history, self.cusum
        innovation = history.innovation(x, trend=self._trend, enough=cusum.largest_to_zero)
        history.append(x)
        if innovation is not None and (innovation or cusum.value):  # otherwise it stays 0
            cusum.update(innovation, step)

    @property
    def value(self) -> float:
        """The CUSUM, in standard errors; 0 while the level is not clearly above the baseline."""
        value = self.cusum.value
        if value == 0.0:
            return 0.0
        if self._least_rise == -math.inf:
            return value if self.history.has_baseline else 0.0
        baseline, values = self.history.baseline(), self.history.values
        if baseline is None:
            return 0.0
        recent = sorted((values[-1], values[-2], values[-3]))[1]  # a median, so that spikes do not count
        return 0.0 if recent - baseline < self._least_rise else value

    def restart(self) -> None:
        """Discard the past, because the channel was interrupted."""
        self.history.clear()
        self.cusum.reset()


def update_surge(*, turn: int, floor: float, factor: float) -> Surge:
    """Build the surge of a size of the update: white noise, a distant baseline, and a rise by ``factor``."""
    least = math.log(factor)
    return Surge(turn=turn, slack=0.8, floor=floor, momentum=False, length=60, lag=8, trend=False, least_rise=least)


def update_channels(channels: Mapping[str, Surge], finite: Mapping[str, float], step: int, *, muted: bool) -> None:
    """Update the channels with their values in a row, each with the sign that makes a rise bad.

    Args:
        channels: "entropy", "unlikelihood", "paired", "gradient", "ratio" and "loss", the last of −reward, from the
            first row on in which "paired" was observed.
        finite: The finite signals of the row.
        step: The step of the row.
        muted: Whether gradient and ratio are left out, because they have no meaning in this row.
    """
    get = finite.get
    if (entropy := get("entropy/mean")) is not None:
        channels["entropy"].update(entropy, step)
    if (likelihood := get("likelihood/correct")) is not None:
        channels["unlikelihood"].update(-likelihood, step)
    if (paired := get("entropy/paired_delta")) is not None:
        channels["paired"].update(paired, step)
    # The loss is used only together with the paired channel, so runs without that channel do not compute it.
    if channels["paired"].history.seen and (reward := get("reward/mean")) is not None:
        channels["loss"].update(-reward, step)
    if muted:
        return
    # A norm of exactly 0 comes from a batch of groups without variance and is not a small gradient.
    if (gradient := get("grad/norm")) is not None and gradient > 0.0:
        channels["gradient"].update(math.log(gradient), step)
    if (ratio := first_finite(finite, RATIOS)) is not None and ratio[1] > 0.0:
        channels["ratio"].update(math.log(ratio[1]), step)
