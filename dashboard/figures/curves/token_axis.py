"""Places steps by the tokens that a run had processed until then, where its trainer logs them."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Self

from dashboard.collector_client.types.runs import SeriesItem

__all__ = ["TokenAxis", "token_signal"]

COUNTERS: Final = {
    "num_tokens": True,  # TRL
    "num_input_tokens_seen": True,  # transformers
    "perf/total_num_tokens": False,  # verl
}
"""The ends of the names under which trainers log tokens, and whether the number counts from the beginning of the run
(True) or within the step (False). An adapter puts the trainer's name before the name."""


def token_signal(signals: Iterable[str]) -> str | None:
    """Return the signal of a run that counts its tokens, or None.

    >>> token_signal(["reward/mean", "trl/num_tokens"])
    'trl/num_tokens'
    """
    return min((signal for signal in signals if _counter(signal)), default=None)


def _counter(signal: str) -> str | None:
    return next((name for name in COUNTERS if f"/{signal}".endswith(f"/{name}")), None)


@dataclass(frozen=True, slots=True)
class TokenAxis:
    """The tokens until each step, shape [n] each, both ascending; between two steps they grow evenly.

    ``is_total`` if the signal counts from the beginning of the run.
    """

    signal: str
    steps: Sequence[int]
    tokens: Sequence[float]
    is_total: bool

    @classmethod
    def of(cls, series: SeriesItem) -> Self | None:
        """Build the axis from every value of a signal that `token_signal` has found; None where none is a number.

        If a count from the beginning falls, as after a rewind or a restart, the axis stays at the highest count so far.
        """
        kept = [
            (step, value)
            for step, value in zip(series["steps"], series["values"], strict=True)
            if math.isfinite(value) and value >= 0
        ]
        if not kept:
            return None
        steps, values = zip(*kept, strict=True)
        is_total = COUNTERS[_counter(series["signal"]) or ""]
        tokens = list(accumulate(values, max) if is_total else accumulate(values))
        return cls(series["signal"], list(steps), tokens, is_total)

    def place(self, step: float) -> float:
        """Return the tokens until a step; a step outside the known steps has the tokens of the nearest known step."""
        return _between(self.steps, self.tokens, step)

    def step_at(self, tokens: float) -> float:
        """Return the step at which a number of tokens was reached."""
        return _between(self.tokens, self.steps, tokens)


def _between(places: Sequence[float], values: Sequence[float], place: float) -> float:
    after = bisect_left(places, place)
    if after == 0:
        return float(values[0])
    if after == len(places):
        return float(values[-1])
    share = (place - places[after - 1]) / (places[after] - places[after - 1])
    return values[after - 1] + share * (values[after] - values[after - 1])
