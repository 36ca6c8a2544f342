"""The steps of rows without a step, as TRL and transformers print them, from the trainer's progress bar."""

import re
from collections.abc import Iterator

from monitor_server.importers.protocol import Row
from monitor_server.importers.signal_names import STEP_KEYS

__all__ = ["BarSteps"]

# The bar of transformers' trainer has no name before it: "  5%|▌  | 12/240 [00:30<09:30,  2.5s/it]".
_BAR = re.compile(rb"(?:^|\s)\d{1,3}%\|[^|]{0,200}\|\s*(\d{1,15})/(\d{1,15})\s*\[")
BAR_BYTES = 400  # the newest bar is in this many bytes of a line
MAX_WAITING = 4096


class BarSteps:
    """Numbers rows without a step by the progress bar before them.

    The bar counts the finished steps, so a row after the reading c is the row of step c. Output to a file is often
    buffered, so that many rows follow one reading: n rows between the readings p and c get the steps p + (c - p) i / n.
    If rows are before the first reading, most readings were overwritten, and rows are those up to the next reading.
    A row that shares no key with the row before it at the same reading belongs to the same step. A reading below the
    one before is a restart. All rows are counted instead if there is no bar, or if rows are before the first one and it
    is finished or has finished fewer steps than these rows: then it is another bar.

    The total identifies the trainer's bar: a bar with another total than at the first row is ignored.
    """

    def __init__(self) -> None:
        self._total: bytes | None = None
        self._is_counted = False  # no bar counts these rows
        self._is_before_bars = False  # the rows are those up to the next reading, and not those after the newest one
        self._reading = 0  # of the rows that wait
        self._step = 0  # of the newest row that was yielded
        self._interval = 1.0  # steps between the newest of these
        self._waiting: list[dict[str, object]] = []

    def take(self, row: Row, bar: bytes) -> Iterator[Row]:
        """Process a row with the newest line that began with a bar, and yield the rows whose steps are known."""
        has_bar = self._total is not None
        has_step = any(key in row for key in STEP_KEYS)
        reading = None if has_step or self._is_counted else self._read(bar)
        if not has_bar and self._waiting and (has_step or reading is not None):
            self._is_before_bars = reading is not None and self._join_parts(reading)
            self._is_counted = not self._is_before_bars
        if has_step or self._is_counted:
            yield from self.close()
            yield row
            return
        if reading is not None and reading != self._reading:
            if self._is_before_bars:
                self._reading = max(reading, self._reading)
            yield from self.close()
            if reading < self._reading:
                self._step = 0
            self._reading = reading
        self._hold(row)
        if len(self._waiting) >= MAX_WAITING:
            self._is_counted = not has_bar
            yield from self.close()

    def _join_parts(self, reading: int) -> bool:
        """Join the parts of steps before the first bar, and return whether these may be steps up to its reading.

        A bar that is finished by then may be that of an evaluation within a training without one.
        """
        rows, self._waiting = self._waiting, []
        for row in rows:
            self._hold(row)
        if len(self._waiting) <= reading < int(self._total or 0):
            return True
        self._waiting = rows
        return False

    def _hold(self, row: Row) -> None:
        """Let a row wait, as a part of the one before if both may be of one step."""
        if self._total and self._waiting and not (row.keys() & self._waiting[-1].keys()) - {"epoch"}:
            self._waiting[-1] = {**self._waiting[-1], **row}
        else:
            self._waiting.append(dict(row))

    def _read(self, bar: bytes) -> int | None:
        """Return the count of the newest bar in a line; None if there is none of the trainer."""
        found = _BAR.findall(bar.partition(b"{")[0][-BAR_BYTES:])
        if not found or (self._total is not None and found[-1][1] != self._total):
            return None
        count, self._total = found[-1]
        return int(count)

    def close(self) -> Iterator[Row]:
        """Yield the rows that wait."""
        rows, self._waiting = self._waiting, []
        if self._is_counted or self._total is None:
            yield from rows
            return
        first, steps = self._step, max(self._reading - self._step, len(rows))
        if self._is_before_bars and self._reading == first:  # no reading is after these rows
            steps = round(self._interval * len(rows))
        for place, row in enumerate(rows, 1):
            self._step = first + steps * place // len(rows)
            yield {**row, "step": self._step}
        if rows:
            self._interval = steps / len(rows)
