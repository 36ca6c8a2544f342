"""Series in parts of bounded size, each signal downsampled to the pixels of a plot."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from monitor_server.api.pagination import MAX_NUMBERS
from monitor_server.store.repositories.series.columns import Column, Statistic
from monitor_server.store.repositories.series.downsampling import downsample
from trainer_hooks.wire import spell_non_finite

__all__ = ["PATTERN", "SeriesCursor", "SeriesPart", "read_part", "render_part"]

# All signals of a step are in one row, so one more signal costs little; but each is held as a whole while it is read.
SIGNALS_AT_ONCE = 64

PATTERN = r"^[0-9]{1,9}\.[0-9]{1,18}$"


@dataclass(frozen=True, slots=True)
class SeriesCursor:
    """The beginning of an answer: the place of a signal among the requested ones, and its first step."""

    place: int = 0
    step: int = 0

    def __str__(self) -> str:
        """Return the cursor in the form for clients."""
        return f"{self.place}.{self.step}"

    @classmethod
    def parse(cls, given: str | None) -> "SeriesCursor":
        """Read a cursor from a client, in the form of `PATTERN`."""
        place, _, step = (given or "0.0").partition(".")
        return cls(int(place), int(step))


@dataclass(frozen=True, slots=True)
class SeriesPart:
    """The signals of one answer, of which the last may be incomplete, and the beginning of the next answer."""

    columns: list[Column]
    next: SeriesCursor | None


def read_part(
    read: Callable[[Sequence[str]], Sequence[Column]],
    names: Sequence[str],
    *,
    begin: SeriesCursor,
    max_points: int,
    statistic: Statistic,
) -> SeriesPart:
    """Read signals from a cursor on, up to `MAX_NUMBERS` points.

    Args:
        read: Reads whole signals by their names.
        names: The requested signals, in order.
        begin: The beginning of the answer.
        max_points: The largest number of points of one signal.
        statistic: What is shown of a section of a longer signal.
    """
    found: list[Column] = []
    room = MAX_NUMBERS
    for first in range(begin.place, len(names), SIGNALS_AT_ONCE):
        for place, whole in enumerate(read(names[first : first + SIGNALS_AT_ONCE]), start=first):
            column = downsample(whole, max_points=max_points, statistic=statistic)
            if place == begin.place:
                column = column.select(slice(int(np.searchsorted(column.steps, begin.step)), None))
            if room == 0:
                return SeriesPart(found, SeriesCursor(place))
            found.append(column.select(slice(room)))
            if len(column.steps) > room:
                return SeriesPart(found, SeriesCursor(place, int(column.steps[room])))
            room -= len(column.steps)
    return SeriesPart(found, None)


def render_part(part: SeriesPart) -> bytes:
    """Return an answer in JSON, an `ItemList` of `SeriesItem`.

    FastAPI would write it on the event loop, where 50,000 points delay all other requests by a tenth of a second. Here
    a worker thread writes it, one signal at a time, so that other threads run in between.
    """
    items = []
    for column in part.columns:
        item: dict[str, object] = {
            "signal": column.signal,
            "steps": column.steps.tolist(),
            "values": _numbers(column.values),
        }
        if column.times is not None:
            item["times"] = _numbers(column.times)
        if column.counts is not None:
            item["counts"] = column.counts.tolist()
        items.append(msgspec.Raw(msgspec.json.encode(item)))
    return msgspec.json.encode({"items": items, "next": None if part.next is None else str(part.next)})


def _numbers(values: NDArray[np.float64]) -> object:
    """Return numbers in a form that JSON can hold."""
    return values.tolist() if np.isfinite(values).all() else spell_non_finite(values.tolist())
