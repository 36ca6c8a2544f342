"""Lets a few large batches be read and appended at once, in the order of their arrival; the others wait."""

import asyncio
from types import TracebackType

from monitor_server.errors import Unavailable

__all__ = ["LargeBatches"]


class LargeBatches:
    """A semaphore that counts the batches that wait, used as an asynchronous context manager."""

    def __init__(self, most: int) -> None:
        """Let ``most`` batches in at once."""
        self._semaphore = asyncio.Semaphore(most)
        self._is_closed = False
        self.waiting = 0
        """How many batches wait."""

    def close(self) -> None:
        """Refuse the batches that wait and every later batch, because the collector stops."""
        self._is_closed = True
        self._semaphore.release()  # lets the first batch in that waits, which lets in the next one

    async def __aenter__(self) -> None:
        self.waiting += 1
        try:
            await self._semaphore.acquire()
        finally:
            self.waiting -= 1
        if self._is_closed:
            self._semaphore.release()
            raise Unavailable("the collector stops, and nothing of this was stored; send again later")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._semaphore.release()
