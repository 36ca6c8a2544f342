"""Hands events to subscribers on the event loop: bounded for each, so that a slow one costs only itself."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

__all__ = ["Broadcast", "Event"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a run, its data as JSON."""

    kind: str
    run_id: str
    data: str


class _Subscriber:
    def __init__(self, run_id: str | None, size: int) -> None:
        self.run_id = run_id
        self.events: deque[Event] = deque(maxlen=size)
        self.dropped = 0
        self.woken = asyncio.Event()

    def offer(self, event: Event) -> None:
        if self.run_id in (None, event.run_id):
            self.dropped += len(self.events) == self.events.maxlen
            self.events.append(event)
            self.woken.set()


class Broadcast:
    """Gives every subscriber every event, in order, until `close`."""

    def __init__(self, *, queue_size: int) -> None:
        self._queue_size = queue_size
        self._subscribers: set[_Subscriber] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Deliver on ``loop``."""
        self._loop = loop

    @property
    def wanted(self) -> bool:
        """Whether anyone listens."""
        return bool(self._subscribers)

    def publish(self, events: Iterable[Event]) -> None:
        """Hand events over; called from any thread, waits for nobody."""
        if self._loop is not None and not self._closed and self._subscribers:
            self._loop.call_soon_threadsafe(self._deliver, list(events))

    async def subscribe(self, run_id: str | None = None) -> AsyncIterator[Event]:
        """Give the events of one run, or of all; ends when the broadcast is closed.

        Where the subscriber was too slow, an event ``dropped`` says how many events it has missed.
        """
        subscriber = _Subscriber(run_id, self._queue_size)
        self._subscribers.add(subscriber)
        try:
            while not self._closed:
                await subscriber.woken.wait()
                subscriber.woken.clear()
                while subscriber.events:
                    if subscriber.dropped:
                        yield Event(kind="dropped", run_id="", data=f'{{"count": {subscriber.dropped}}}')
                        subscriber.dropped = 0
                    else:
                        yield subscriber.events.popleft()
        finally:
            self._subscribers.discard(subscriber)

    def close(self) -> None:
        """End every subscription; called on the event loop."""
        self._closed = True
        for subscriber in self._subscribers:
            subscriber.woken.set()

    def _deliver(self, events: list[Event]) -> None:
        for subscriber in self._subscribers:
            for event in events:
                subscriber.offer(event)
