"""Bounds the work of one slice of a run, so that other runs get their turn."""

from collections.abc import Callable
from time import thread_time
from typing import Final

__all__ = ["MAX_STEPS_PER_SLICE", "Budget"]

MAX_STEPS_PER_SLICE: Final = 256
MAX_RECORDS_PER_SLICE: Final = 4_096  # a step of a run with thousands of ranks consists of thousands of records
MAX_SECONDS_PER_SLICE: Final = 0.1


class Budget:
    """The work that one slice may do, so that other runs get their turn: at least one step, up to each bound."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = thread_time,
        give_way: Callable[[], None] = lambda: None,
        most_steps: int | None = None,
    ) -> None:
        """Begin a slice.

        Args:
            clock: Returns seconds; by default the processor time of the thread, because pauses are not work.
            give_way: Called after each step, to let ingest go first.
            most_steps: The largest number of steps; `MAX_STEPS_PER_SLICE` if left out.
        """
        self._most_steps = most_steps or MAX_STEPS_PER_SLICE
        self._clock = clock
        self._give_way = give_way
        self._end = clock() + MAX_SECONDS_PER_SLICE
        self._steps = self._records = 0

    def spend(self, *, records: int = 1) -> None:
        """Count a step that was merged from the given number of records."""
        self._steps += 1
        self._records += records
        self._give_way()

    @property
    def is_spent(self) -> bool:
        """Whether the slice has to end."""
        return (
            self._steps >= self._most_steps
            or self._records >= MAX_RECORDS_PER_SLICE
            or (self._steps > 0 and self._clock() >= self._end)
        )
