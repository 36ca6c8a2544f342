"""Hands the results of the writer's thread to the event loop, which wakes once for all results that are ready.

A commit answers many requests. `asyncio.wrap_future` would wake the loop, and switch threads, for each of them. A
request waits at most `LONGEST_WAIT_SECONDS` for a disk that does not answer.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, wait
from typing import Any, Final, TypeVar

from monitor_server.errors import CollectorError, OutcomeUnknown, Unavailable

__all__ = ["Deliveries", "wait_in_thread"]

# A trainer waits 30 s for an answer, so this is shorter. Two commits of a slow database take less time than this.
LONGEST_WAIT_SECONDS: Final = 28.0

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class Deliveries:
    """Results on their way to one event loop. One instance serves one loop only."""

    def __init__(self) -> None:
        self._ready: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._is_waking = False

    def wait(self, future: "Future[Result]") -> "asyncio.Future[Result]":
        """Return a future of the running loop for the result of another thread; cancelling it cancels the other future.

        It raises the error of the other thread. After `LONGEST_WAIT_SECONDS` it raises `OutcomeUnknown`, or
        `Unavailable` if the work had not begun, in which case the work never begins.
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
        """Queue a result. The thread of the result calls this, or the thread of the loop."""
        self._ready.append((waited, done))
        if not self._is_waking:
            self._is_waking = True
            try:
                wake(self._hand_over)
            except RuntimeError:  # the loop is closed, and no request waits
                self._ready.clear()

    def _hand_over(self) -> None:
        self._is_waking = False  # set before the first result is taken, so that a later one wakes the loop again
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
    """Return the result of another thread, after a wait of at most `LONGEST_WAIT_SECONDS`.

    Raises:
        OutcomeUnknown: If the work has not ended in time.
        Unavailable: If the work has not begun in time. It never begins.
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
        f"the database has not confirmed this {waited}, and it may or may not be stored; a batch can be sent again; "
        "before you repeat another change, check whether it is stored"
    )
