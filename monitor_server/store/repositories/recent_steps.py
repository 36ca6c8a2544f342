"""The newest steps of a run, which its row holds for its pace and its sparkline."""

from collections.abc import Iterator
from itertools import groupby, pairwise
from operator import itemgetter

import msgspec

__all__ = ["RECENT_STEPS", "SPARKLINE_SIGNAL", "Recent", "read_recent"]

RECENT_STEPS = 64
SPARKLINE_SIGNAL = "reward/mean"  # whose newest values a list of runs shows


class Recent(msgspec.Struct):
    """Times and rewards of the newest steps, for the step time and the sparkline."""

    times: list[float] = []
    steps: list[int] = []
    rewards: list[float] = []

    def add(self, *, step: int, time: float, reward: float | None) -> None:
        """Append a step and forget the oldest."""
        self.steps = [*self.steps[1 - RECENT_STEPS :], step]
        self.times = [*self.times[1 - RECENT_STEPS :], time]
        if reward is not None:
            self.rewards = [*self.rewards[1 - RECENT_STEPS :], reward]

    def step_seconds(self) -> float | None:
        """Return the median time of a step, or None before steps of one attempt were seen at two times."""
        return _median([seconds / steps for steps, seconds in self._intervals()])

    def interval_seconds(self) -> float | None:
        """Return the median time from one step that was sent to the next, also where only every tenth is sent."""
        return _median([seconds for _, seconds in self._intervals()])

    def _intervals(self) -> Iterator[tuple[int, float]]:
        """Yield the steps and seconds between two times; steps without times of their own have that of their batch."""
        points = [next(batch) for _, batch in groupby(zip(self.steps, self.times, strict=True), key=itemgetter(1))]
        for (before, sooner), (after, later) in pairwise(points):
            if after > before and later > sooner:
                yield after - before, later - sooner


def _median(values: list[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None


_RECENT = msgspec.msgpack.Decoder(Recent)


def read_recent(stored: bytes) -> Recent:
    """Read the newest steps of a run; none where they are damaged, so that its pace is learned anew."""
    try:
        return _RECENT.decode(stored)
    except msgspec.MsgspecError:
        return Recent()
