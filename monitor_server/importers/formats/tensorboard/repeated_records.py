"""Finds the beginnings of an event file's records, many at once."""

from array import array

import numpy as np
from numpy.typing import NDArray

__all__ = ["RecordCycle"]

WINDOW = 512  # the number of lengths in which a cycle is searched for
LONGEST = WINDOW // 2  # the largest number of records in a cycle, so that the window has room for two
LENGTH_BYTES = 8


class RecordCycle:
    """Predicts the lengths of records, because a trainer writes the same scalars in the same order at every step.

    A prediction costs less than reading the lengths one after the other, because each length determines the place of
    the next. A prediction is only a guess: a record counts as found only if its stored length equals the predicted one.

    Args:
        frame: Bytes of a record in addition to its content.
    """

    def __init__(self, frame: int) -> None:
        self._frame = frame
        self._lengths: NDArray[np.int64] = np.zeros(0, np.int64)
        self._offsets = self._lengths
        self._bytes = 0  # bytes of a whole cycle

    def learn(self, lengths: "array[int]") -> None:
        """Find the cycle of the newest lengths, if there is one."""
        newest = np.array(lengths[-WINDOW:], np.int64)
        self._bytes = 0
        if len(newest) < WINDOW:
            return
        for count in range(1, LONGEST + 1):
            if newest[-1] == newest[-1 - count] and (newest[count:] == newest[:-count]).all():
                self._lengths = newest[-count:]
                ends = np.cumsum(self._lengths + self._frame)
                self._offsets, self._bytes = ends - self._lengths - self._frame, int(ends[-1])
                return

    @property
    def count(self) -> int:
        """The number of records in the newest cycle; 0 if there is none."""
        return len(self._lengths) if self._bytes else 0

    def extend(self, buffer: bytes, position: int, last: int, starts: "array[int]", lengths: "array[int]") -> int:
        """Add the records from ``position`` on that repeat the cycle, and return where the next one begins.

        Args:
            buffer: Bytes of the file.
            position: The beginning of a cycle.
            last: The last place at which a record may begin.
            starts: Receives the places of the records.
            lengths: Receives their lengths.
        """
        cycles = (last - position) // self._bytes if self._bytes else 0
        if cycles <= 0:
            return position
        places = (position + np.arange(cycles)[:, None] * self._bytes + self._offsets).ravel()
        predicted = np.tile(self._lengths, cycles)
        windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(buffer, np.uint8), LENGTH_BYTES)
        is_right = windows[places].view("<i8")[:, 0] == predicted
        found = len(places) if is_right.all() else int(is_right.argmin())
        starts.frombytes(places[:found].tobytes())
        lengths.frombytes(predicted[:found].tobytes())
        return position + cycles * self._bytes if found == len(places) else int(places[found])
