"""Hands the results of the writer's thread to the event loop, which is woken once for all that are ready.

A commit answers many requests. asyncio's own `wrap_future` would wake the loop, and switch threads, for each of them.
No request waits for a disk that does not answer for longer than `LONGEST_WAIT_SECONDS`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, wait
from typing import Any, Final, TypeVar

from monitor_server.errors import CollectorError, OutcomeUnknown, Unavailable

__all__ = ["Deliveries", "wait_in_thread"]

# Less than a trainer waits for an answer (30 s), more than two commits of a slow database take.
LONGEST_WAIT_SECONDS: Final = 28.0

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class Deliveries:
    """Results on their way to one event loop, of which there must be no other."""

    def __init__(self) -> None:
        self._ready: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._is_waking = False

    def wait(self, future: "Future[Result]") -> "asyncio.Future[Result]":
        """Return a future of the running loop that ends as another thread's does; cancelling it cancels that one.

        It raises what that one raises. Where that one has not ended in time it raises `OutcomeUnknown`, or
        `Unavailable` where that one had not begun, and never will.
        """
        loop = asyncio.get_running_loop()
        waited: asyncio.Future[Result] = loop.create_future()
        expiry = loop.call_later(LONGEST_WAIT_SECONDS, _expire, waited, future)

        def end(done: asyncio.Future[Result]) -> None:
            expiry.cancel()
            if done.cancelled():
                future.cancel()

        waited.add_done_callback(end)
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


def _expire(waited: "asyncio.Future[Any]", future: "Future[Any]") -> None:
    if waited.done():
        return
    waited.set_exception(_not_confirmed(future))


def wait_in_thread(future: "Future[Result]") -> Result:
    """Return what another thread returns, which may take as long as `Deliveries.wait` lets it.

    Raises:
        OutcomeUnknown: If it has not ended in time.
        Unavailable: If it has not begun in time, and never will.
    """
    wait([future], timeout=LONGEST_WAIT_SECONDS)
    if future.done():
        return future.result()
    raise _not_confirmed(future)


def _not_confirmed(future: "Future[Any]") -> CollectorError:
    waited = f"within {LONGEST_WAIT_SECONDS:g} s"
    log.error(
        "a commit has not ended %s; its requests are refused, and the database is slow or does not answer", waited
    )
    if future.cancel():
        return Unavailable(f"the database has not taken this {waited}, and nothing was stored; send again later")
    return OutcomeUnknown(
        f"the database has not confirmed this {waited}, and it may or may not be stored; a batch can be sent again, "
        "and of any other change look first"
    )
