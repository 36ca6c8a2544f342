"""Hands events from any thread to the event loop. Their number is bounded: a loop that is late loses the oldest."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, TypeVar

__all__ = ["HandOver"]

# The events of some seconds, for a loop that answers requests meanwhile.
MAX_EVENTS: Final = 10_000
# Further events are delivered after the other work of the loop: each goes to hundreds of subscribers.
EVENTS_AT_ONCE: Final = 256

Item = TypeVar("Item")


class HandOver(Generic[Item]):
    """Events on their way to the event loop.

    Args:
        deliver: Called on the loop with events in the order in which they were put.
        on_loss: Called on the loop before the events after some that were lost.
    """

    def __init__(self, deliver: Callable[[Sequence[Item]], None], *, on_loss: Callable[[], None]) -> None:
        self._deliver = deliver
        self._on_loss = on_loss
        self._lock = threading.Lock()
        self._waiting: deque[Item] = deque()
        self._has_lost = False
        self._is_waking = False

    def __len__(self) -> int:
        """Return the number of events that wait for the loop, at most `MAX_EVENTS`."""
        return len(self._waiting)

    def put(self, loop: asyncio.AbstractEventLoop, events: Iterable[Item]) -> None:
        """Queue events for a loop; may be called from any thread, and never waits."""
        with self._lock:
            self._waiting.extend(events)
            while len(self._waiting) > MAX_EVENTS:
                self._waiting.popleft()
                self._has_lost = True
            if self._is_waking or not self._waiting:
                return
            self._is_waking = True
        loop.call_soon_threadsafe(self._hand_over, loop)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            events = [self._waiting.popleft() for _ in range(min(len(self._waiting), EVENTS_AT_ONCE))]
            has_lost, self._has_lost = self._has_lost, False
            has_more = self._is_waking = bool(self._waiting)
        if has_lost:
            self._on_loss()
        self._deliver(events)
        if has_more:
            loop.call_soon(self._hand_over, loop)
