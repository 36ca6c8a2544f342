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
    A row that shares no key with the row before it at the same reading belongs to the same step. A reading below the
    one before is a restart. If there is no bar before the first row, all rows are counted instead.

    The total identifies the trainer's bar: a bar with another total than at the first row is ignored.
    """

    def __init__(self) -> None:
        self._total: bytes | None = None
        self._is_counted = False  # there was no bar before the first row
        self._reading = 0  # of the rows that wait
        self._step = 0  # of the newest row that was yielded
        self._waiting: list[dict[str, object]] = []

    def take(self, row: Row, bar: bytes) -> Iterator[Row]:
        """Process a row with the newest line that began with a bar, and yield the rows whose steps are known."""
        has_step = any(key in row for key in STEP_KEYS)
        reading = None if has_step or self._is_counted else self._read(bar)
        if reading is None and not has_step and self._total is None:
            self._is_counted = True
        if has_step or self._is_counted:
            yield from self.close()
            yield row
            return
        if reading is not None and reading != self._reading:
            yield from self.close()
            if reading < self._reading:
                self._step = 0
            self._reading = reading
        if self._waiting and not (row.keys() & self._waiting[-1].keys()) - {"epoch"}:
            self._waiting[-1].update(row)
            return
        self._waiting.append(dict(row))
        if len(self._waiting) >= MAX_WAITING:
            yield from self.close()

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
        first, steps = self._step, max(self._reading - self._step, len(rows))
        for place, row in enumerate(rows, 1):
            self._step = first + steps * place // len(rows)
            yield {**row, "step": self._step}
