"""Accelerating displacement: held-out correct responses become less likely, and faster from block to block."""

from monitor_server.detection.statistics.state import Stateful

__all__ = ["AcceleratingDisplacement"]

BLOCK_ROWS = 10  # the noise of one row is larger than the change from one row to the next


class AcceleratingDisplacement(Stateful):
    """Counts the newest consecutive blocks of ten rows in which ε ≤ 0 falls: Definition 5.1 in blocks.

    ε of a block is the mean of ``displacement/cross`` over ten rows that have it: the largest ε for which held-out
    correct responses have lazy likelihood displacement (Definition 4.1) on average, in nats per token per step. The
    death spiral of Definition 5.1 is ε₍b₊₁₎ < ε₍b₎ ≤ 0 from block to block. A block with ε > 0 ends the count, and 1 is
    a block with ε ≤ 0 that is not below the one before. A count of 3 or 4 also occurs by chance: 21 of the 27 recorded
    healthy runs reach it, with ε above -0.0005. So the count is evidence only beside the size of ε.

    Reference:
        arXiv 2512.04220, Definitions 4.1 and 5.1.

    >>> displacement = AcceleratingDisplacement()
    >>> for row in range(40):
    ...     displacement.update(0.001 if row < 10 else -0.001 * (row // 10))
    >>> displacement.blocks, round(displacement.newest, 3)
    (3, -0.003)
    """

    def __init__(self) -> None:
        self.sum = 0.0
        self.rows = 0  # of the block that is not complete
        self.newest: float | None = None  # ε of the newest complete block
        self.blocks = 0

    def update(self, displacement: float) -> None:
        """Process ``displacement/cross`` of one row, in nats per token."""
        self.sum += displacement
        self.rows += 1
        if self.rows < BLOCK_ROWS:
            return
        newest, before = self.sum / BLOCK_ROWS, self.newest
        if newest > 0.0:
            self.blocks = 0
        elif before is not None and newest < before <= 0.0:
            self.blocks += 1
        else:
            self.blocks = 1
        self.newest, self.sum, self.rows = newest, 0.0, 0

    def restart(self) -> None:
        """Discard all blocks, because other rows follow."""
        self.sum, self.rows, self.newest, self.blocks = 0.0, 0, None, 0

    def take_back(self, rows: int, left: int) -> None:  # noqa: ARG002 - a block does not know which rows are replaced
        """Discard all blocks: a sum cannot forget the rows that a rewind replaces."""
        self.restart()
