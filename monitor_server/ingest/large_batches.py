"""Lets a few large batches be read and appended at once, in the order in which they came; the others wait."""

import asyncio
from types import TracebackType

__all__ = ["LargeBatches"]


class LargeBatches:
    """A semaphore that counts who waits, used as an asynchronous context manager."""

    def __init__(self, most: int) -> None:
        """Let ``most`` batches in at once."""
        self._semaphore = asyncio.Semaphore(most)
        self.waiting = 0
        """How many batches wait."""

    async def __aenter__(self) -> None:
        self.waiting += 1
        try:
            await self._semaphore.acquire()
        finally:
            self.waiting -= 1

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._semaphore.release()
