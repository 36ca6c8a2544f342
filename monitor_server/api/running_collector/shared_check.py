"""Runs one check for all requests that ask at the same time, in a thread of its own, and lets none wait for long."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

import anyio
import anyio.to_thread

__all__ = ["SharedCheck"]

Result = TypeVar("Result")


class SharedCheck(Generic[Result]):
    """A check that may take long; used on the event loop only.

    Attributes:
        newest: The result of the newest check that has ended; None before the first, or where it has failed.
    """

    def __init__(self) -> None:
        self.newest: Result | None = None
        self._turn = anyio.CapacityLimiter(1)
        self._under_way: asyncio.Task[Result] | None = None

    async def result(self, check: Callable[[], Result], *, within_seconds: float) -> Result | None:
        """Return the result of the check that is under way, or else of a new one; None if it does not end in time.

        It raises what the check raises.
        """
        task = self._under_way
        if task is None:
            task = self._under_way = asyncio.create_task(self._run(check))
            task.add_done_callback(self._end)
        done, _ = await asyncio.wait({task}, timeout=within_seconds)
        return task.result() if done else None

    async def _run(self, check: Callable[[], Result]) -> Result:
        # A collector that ends does not wait for it.
        return await anyio.to_thread.run_sync(check, limiter=self._turn, abandon_on_cancel=True)

    def _end(self, task: "asyncio.Task[Result]") -> None:
        self._under_way = None
        # The error is read, or asyncio would log one that nobody has waited for.
        has_failed = task.cancelled() or task.exception() is not None
        self.newest = None if has_failed else task.result()
