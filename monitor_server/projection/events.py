"""Hands events to subscribers on the event loop: bounded for each, so that a slow one costs only itself."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["Broadcast", "Event", "Subscription"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a run, its data as JSON."""

    kind: str
    run_id: str
    data: str


class Subscription:
    """The events of one subscriber, as an asynchronous iterator; ends when the broadcast is closed."""

    def __init__(self, run_id: str | None, size: int) -> None:
        self._run_id = run_id
        self._events: deque[Event] = deque(maxlen=size)
        self._dropped = 0
        self._woken = asyncio.Event()
        self._closed = False

    def offer(self, event: Event) -> None:
        """Take an event; the oldest is dropped where too many wait."""
        if self._run_id in (None, event.run_id):
            self._dropped += len(self._events) == self._events.maxlen
            self._events.append(event)
            self._woken.set()

    def close(self) -> None:
        """Let the iterator end."""
        self._closed = True
        self._woken.set()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while not self._closed:
            await self._woken.wait()
            self._woken.clear()
            while self._events:
                if self._dropped:
                    dropped, self._dropped = self._dropped, 0
                    yield Event(kind="dropped", run_id="", data=f'{{"count": {dropped}}}')
                yield self._events.popleft()


class Broadcast:
    """Gives every subscriber every event, in order, until `close`."""

    def __init__(self, *, queue_size: int) -> None:
        self._queue_size = queue_size
        self._subscriptions: set[Subscription] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Deliver on ``loop``."""
        self._loop = loop

    @property
    def wanted(self) -> bool:
        """Whether anyone listens."""
        return bool(self._subscriptions)

    def publish(self, events: Iterable[Event]) -> None:
        """Hand events over; called from any thread, waits for nobody."""
        if self._loop is not None and not self._closed and self._subscriptions:
            self._loop.call_soon_threadsafe(self._deliver, list(events))

    @contextmanager
    def subscribe(self, run_id: str | None = None) -> Iterator[Subscription]:
        """Give the events of one run, or of all, from now on.

        Where the subscriber was too slow, an event ``dropped`` says how many events it has missed.
        """
        subscription = Subscription(run_id, self._queue_size)
        self._subscriptions.add(subscription)
        if self._closed:
            subscription.close()
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    def close(self) -> None:
        """End every subscription; called on the event loop."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.close()

    def _deliver(self, events: list[Event]) -> None:
        for subscription in self._subscriptions:
            for event in events:
                subscription.offer(event)
