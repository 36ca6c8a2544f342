"""Coverage: whether a signal arrives in enough of the rows to stand for all of them."""

from monitor_server.detection.statistics.state import Stateful

__all__ = ["Coverage"]

ROWS, LEAST = 20, 10  # the newest rows that are known, and the number from which on they decide
MASK = (1 << ROWS) - 1


class Coverage(Stateful):
    """Decides whether a signal was observed in at least half of the newest 20 rows, from its tenth row on.

    The paired change of entropy belongs to the update of its own row. A sum over every fifth row knows a fifth of a
    drift, and would contradict the levels, which know all of it.

    >>> coverage = Coverage()
    >>> for row in range(40):
    ...     coverage.update(row % 2 == 0)
    >>> every_second = coverage.is_dense
    >>> for row in range(40):
    ...     coverage.update(row % 5 == 0)
    >>> every_second, coverage.is_dense
    (True, False)
    """

    def __init__(self) -> None:
        self.rows = 0  # the number of rows that are known, at most 20
        self.seen = 0  # one bit for each of them, the newest one lowest

    def update(self, is_observed: bool) -> None:  # noqa: FBT001 - the only argument
        """Add a row."""
        if self.rows or is_observed:
            self.seen = (self.seen << 1 | is_observed) & MASK
            self.rows = min(ROWS, self.rows + 1)

    @property
    def is_dense(self) -> bool:
        """Whether the signal was observed in at least half of the known rows; True while these are less than 10."""
        return self.rows < LEAST or 2 * self.seen.bit_count() >= self.rows

    def take_back(self, rows: int, left: int) -> None:  # noqa: ARG002 - the rows are counted
        """Forget the newest rows."""
        rows = min(rows, self.rows)
        self.rows, self.seen = self.rows - rows, self.seen >> rows
