"""Limits how many requests read from the store at once or wait to do so."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from monitor_server.errors import Unavailable

__all__ = ["MAX_READS", "WaitingReads"]

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
