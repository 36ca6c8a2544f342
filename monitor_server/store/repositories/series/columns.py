"""One signal of a run over its steps, as readers receive it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Column", "Statistic", "join_columns"]

Statistic = Literal["extremes", "mean"]
"""What a plot shows of a section of many steps: the least and the largest value, or the mean of the finite ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A signal over the steps at which it was observed.

    Attributes:
        signal: Its name.
        steps: int64 [n], ascending.
        values: float64 [n].
        times: Unix seconds, float64 [n]; None if they were not requested.
        counts: If the values are means, of how many finite values each is one, int64 [n].
    """

    signal: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    times: NDArray[np.float64] | None = None
    counts: NDArray[np.int64] | None = None

    def select(self, places: "NDArray[np.int64] | NDArray[np.bool_] | slice") -> "Column":
        """Return some of its points."""
        times = None if self.times is None else self.times[places]
        counts = None if self.counts is None else self.counts[places]
        return Column(
            signal=self.signal, steps=self.steps[places], values=self.values[places], times=times, counts=counts
        )


def join_columns(name: str, pieces: Sequence[Column], *, first_step: int, last_step: int, with_times: bool) -> Column:
    """Join the pieces of a signal in the order of their steps, without steps outside of a range."""
    numbers = np.concatenate([np.array([], dtype=np.int64), *(piece.steps for piece in pieces)])
    nothing = np.array([], dtype=np.float64)
    times = [piece.times for piece in pieces if piece.times is not None]
    joined = Column(
        signal=name,
        steps=numbers,
        values=np.concatenate([nothing, *(piece.values for piece in pieces)]),
        times=np.concatenate([nothing, *times]) if with_times else None,
        counts=_join_counts(pieces),
    )
    if not (numbers[1:] > numbers[:-1]).all():
        joined = joined.select(np.argsort(numbers, kind="stable"))
    begin, end = np.searchsorted(joined.steps, [first_step, last_step + 1])
    return joined if end - begin == len(numbers) else joined.select(slice(int(begin), int(end)))


def _join_counts(pieces: Sequence[Column]) -> NDArray[np.int64] | None:
    """Return the counts of the pieces of a signal; None if no piece has means."""
    if all(piece.counts is None for piece in pieces):
        return None
    counts = [np.isfinite(piece.values).astype(np.int64) if piece.counts is None else piece.counts for piece in pieces]
    return np.concatenate(counts)
