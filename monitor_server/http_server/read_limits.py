"""Limits how many requests read from the store at once or wait to do so.

It lets one dry run in at a time, and a few exports, which take turns.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import anyio.to_thread

from monitor_server.errors import Unavailable

__all__ = ["MAX_EXPORTS", "MAX_READS", "DryRuns", "Exports", "WaitingReads"]

_Part = TypeVar("_Part")

# Four of them read at a time (`dependencies.READS`) and a read takes about 10 to 100 ms: the last waits a few seconds.
MAX_READS = 128
# A Parquet file holds some 40 MB until its reader has taken the part that was written last.
MAX_EXPORTS = 8


@dataclass(slots=True)
class WaitingReads:
    """The requests that read or wait; used on the event loop only."""

    count: int = 0

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Count a request until the block ends.

        Raises:
            Unavailable: If the largest number of requests already waits.
        """
        if self.count >= MAX_READS:
            raise Unavailable(f"{MAX_READS} requests wait to read from the store; send again later")
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1


@dataclass(slots=True)
class DryRuns:
    """Whether a dry run of a rule is running; used on the event loop only."""

    is_under_way: bool = False

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Admit one dry run until the block ends.

        Raises:
            Unavailable: If another one is running.
        """
        if self.is_under_way:
            raise Unavailable("another dry run is under way, and a collector does one at a time; send it again later")
        self.is_under_way = True
        try:
            yield
        finally:
            self.is_under_way = False


@dataclass(slots=True)
class Exports:
    """The exports that are under way; used on the event loop alone.

    One part of one of them is written at a time, in a thread beside those of other requests: a part takes up to a
    second, and more of them at once would be no sooner done, because they share Python's lock.
    """

    count: int = 0
    _turn: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Count an export until the block ends.

        Raises:
            Unavailable: If as many as may be are under way already.
        """
        if self.count >= MAX_EXPORTS:
            raise Unavailable(f"{MAX_EXPORTS} exports are under way, the most at once; send it again later")
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1

    async def take_turn(self, write: Callable[[], _Part]) -> _Part:
        """Return what a function returns that writes the next part of an export, when it is its turn."""
        return await anyio.to_thread.run_sync(write, limiter=self._turn)
