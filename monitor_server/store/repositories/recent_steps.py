"""The newest steps of a run, which its row holds for its pace and its sparkline."""

from itertools import pairwise

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
        """Return the median time of a step, or None before two steps of one attempt were seen."""
        points = list(zip(self.steps, self.times, strict=True))
        seconds = sorted(
            (later - sooner) / (after - before)
            for (before, sooner), (after, later) in pairwise(points)
            if after > before and later > sooner
        )
        return seconds[len(seconds) // 2] if seconds else None


_RECENT = msgspec.msgpack.Decoder(Recent)


def read_recent(stored: bytes) -> Recent:
    """Read the newest steps of a run; none where they are damaged, so that its pace is learned anew."""
    try:
        return _RECENT.decode(stored)
    except msgspec.MsgspecError:
        return Recent()
