"""The newest steps of a run, which are stored in its row for its pace and its sparkline."""

from collections.abc import Iterator
from itertools import groupby, pairwise
from operator import itemgetter

import msgspec

__all__ = ["RECENT_STEPS", "SPARKLINE_SIGNAL", "Recent", "read_recent"]

RECENT_STEPS = 64
SPARKLINE_SIGNAL = "reward/mean"  # a list of runs shows the newest values of this signal


class Recent(msgspec.Struct):
    """Times and rewards of the newest steps, for the step time and the sparkline."""

    times: list[float] = []
    steps: list[int] = []
    rewards: list[float] = []
    reward_steps: list[int] = []  # of the newest rewards: an earlier version stored rewards without their steps

    def add(self, *, step: int, time: float, reward: float | None) -> None:
        """Append a step and forget the oldest.

        A new attempt may go back to an earlier step. The rewards from this step on, which it undoes, are forgotten.
        Their times are kept, because they show the pace of the run.
        """
        undone = sum(1 for other in self.reward_steps if other >= step)
        if undone:
            self.rewards, self.reward_steps = self.rewards[:-undone], self.reward_steps[:-undone]
        self.steps = [*self.steps[1 - RECENT_STEPS :], step]
        self.times = [*self.times[1 - RECENT_STEPS :], time]
        if reward is not None:
            self.rewards = [*self.rewards[1 - RECENT_STEPS :], reward]
            self.reward_steps = [*self.reward_steps[1 - RECENT_STEPS :], step]

    def step_seconds(self) -> float | None:
        """Return the median time of a step; None until two times of one attempt are known."""
        return _median([seconds / steps for steps, seconds in self._intervals()])

    def interval_seconds(self) -> float | None:
        """Return the median time between two steps that were sent, even if only every tenth step is sent."""
        return _median([seconds for _, seconds in self._intervals()])

    def _intervals(self) -> Iterator[tuple[int, float]]:
        """Yield the steps and seconds between two times; a step without a time of its own has that of its batch."""
        points = [next(batch) for _, batch in groupby(zip(self.steps, self.times, strict=True), key=itemgetter(1))]
        for (before, sooner), (after, later) in pairwise(points):
            if after > before and later > sooner:
                yield after - before, later - sooner


def _median(values: list[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None


_RECENT = msgspec.msgpack.Decoder(Recent)


def read_recent(stored: bytes) -> Recent:
    """Read the newest steps of a run; none if they are damaged, so that its pace is measured again."""
    try:
        return _RECENT.decode(stored)
    except msgspec.MsgspecError:
        return Recent()
