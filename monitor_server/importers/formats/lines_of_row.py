"""The lines of a row of a table, which may be several where a cell is quoted."""

import csv
from collections import deque
from collections.abc import Iterator

from monitor_server.importers.formats.table_layout import NUMBER, Layout

__all__ = ["LinesOfRow"]


class LinesOfRow:
    """The lines of a table, of which those of the newest row can be read again.

    A row that was cut within a quoted text, as when its trainer ended, would otherwise contain all rows up to the next
    quote. No line is read again twice: within such a row, a line alone has no quote that does not end in it.
    """

    def __init__(self, texts: Iterator[str]) -> None:
        self._texts = texts
        self._waiting: deque[str] = deque()
        self._taken: list[str] = []
        self.number = 0  # of the newest line

    def __iter__(self) -> Iterator[str]:
        """Return the lines from here on."""
        return self

    def __next__(self) -> str:
        """Take a line for the newest row."""
        line = self._waiting.popleft() if self._waiting else next(self._texts)
        self.number += 1
        self._taken.append(line)
        return line

    def begin(self) -> None:
        """Begin a row."""
        self._taken.clear()

    def is_cut(self, layout: Layout, width: int) -> bool:
        """Return whether this row was cut within a quoted text, so that the lines after the first are rows themselves.

        A quote that ends before another cell or at the end of the row is that of a whole text, though it has lines of
        numbers. Of the other lines after a cut, at least half begin with a number and have the cells of a row.
        """
        others = self._taken[1:]
        if not others or self._is_whole(layout, width):
            return False
        rows = (next(csv.reader([line], delimiter=layout.delimiter), []) for line in others)
        count = sum(len(cells) == width and NUMBER.match(cells[0]) is not None for cells in rows)
        return 2 * count >= len(others)

    def _is_whole(self, layout: Layout, width: int) -> bool:
        try:
            return len(next(csv.reader(self._taken, delimiter=layout.delimiter, strict=True))) == width
        except csv.Error:
            return False

    def read_again(self) -> None:
        """Go back to the second line of this row."""
        self._waiting.extendleft(reversed(self._taken[1:]))
        self.number -= len(self._taken) - 1
