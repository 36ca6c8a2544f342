"""Limits how many requests read from the store at once or wait to do so, and lets one dry run in at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from monitor_server.errors import Unavailable

__all__ = ["MAX_READS", "DryRuns", "WaitingReads"]

# Four of them read at a time (`dependencies.READS`) and a read takes some 10 to 100 ms: the last waits a few seconds.
MAX_READS = 128


@dataclass(slots=True)
class WaitingReads:
    """The requests that read or wait; used on the event loop alone."""

    count: int = 0

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Count a request until the block ends.

        Raises:
            Unavailable: If as many as may wait do so already.
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
    """Whether a dry run of a rule is under way; used on the event loop alone."""

    is_under_way: bool = False

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Let one dry run in until the block ends.

        Raises:
            Unavailable: If another one is under way.
        """
        if self.is_under_way:
            raise Unavailable("another dry run is under way, and a collector does one at a time; send it again later")
        self.is_under_way = True
        try:
            yield
        finally:
            self.is_under_way = False
