"""Hands the results of the writer's thread to the event loop, which is woken once for all that are ready.

A commit answers many requests. asyncio's own `wrap_future` would wake the loop, and switch threads, for each of them.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

__all__ = ["Deliveries"]

Result = TypeVar("Result")


class Deliveries:
    """Results on their way to one event loop, of which there must be no other."""

    def __init__(self) -> None:
        self._ready: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._is_waking = False

    def wait(self, future: "Future[Result]") -> "asyncio.Future[Result]":
        """Return a future of the running loop that ends as another thread's does; cancelling it cancels that one."""
        loop = asyncio.get_running_loop()
        waited: asyncio.Future[Result] = loop.create_future()
        waited.add_done_callback(lambda done: done.cancelled() and future.cancel())
        future.add_done_callback(lambda done: self._deliver(waited, done, loop.call_soon_threadsafe))
        return waited

    def _deliver(
        self, waited: asyncio.Future[Any], done: "Future[Any]", wake: Callable[[Callable[[], None]], object]
    ) -> None:
        """Queue a result; called in the thread that has it, or in the loop's own."""
        self._ready.append((waited, done))
        if not self._is_waking:
            self._is_waking = True
            try:
                wake(self._hand_over)
            except RuntimeError:  # the loop is closed, and nobody waits
                self._ready.clear()

    def _hand_over(self) -> None:
        self._is_waking = False  # before the first is taken, so that what comes from now on wakes the loop again
        while self._ready:
            waited, done = self._ready.popleft()
            if waited.done():
                continue
            try:
                error = done.exception()
            except CancelledError:
                waited.cancel()
                continue
            if error is None:
                waited.set_result(done.result())
            else:
                waited.set_exception(error)
