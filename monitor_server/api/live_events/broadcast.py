"""Hands events to the subscribers of the stream, on the event loop.

The queue of each subscriber is bounded, so a slow reader loses events and slows down nobody else.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from monitor_server.api.live_events.events import RenderedEvent, render
from monitor_server.errors import Unavailable
from monitor_server.projection.events import Event

__all__ = ["Broadcast", "Subscription"]


class _QueuedEvent:
    """An event that is rendered when the first subscriber takes it, and once for all subscribers."""

    def __init__(self, run_id: str, project: str | None, event: Event | RenderedEvent) -> None:
        self.run_id = run_id
        self.project = project
        self._event = event

    def render(self) -> RenderedEvent:
        if not isinstance(self._event, RenderedEvent):
            self._event = render(self._event)
        return self._event


class Subscription:
    """The events of one subscriber, as an asynchronous iterator that ends when the broadcast is closed."""

    def __init__(self, run_id: str | None, size: int, *, project: str | None = None, key_id: str | None = None) -> None:
        self._run_id = run_id
        self._project = project
        self.key_id = key_id
        self._events: deque[_QueuedEvent] = deque(maxlen=size)
        self._dropped = 0
        self._has_news = asyncio.Event()
        self._closed = False

    def offer(self, event: _QueuedEvent) -> None:
        """Queue an event; the oldest is dropped if the queue is full."""
        if self._run_id in (None, event.run_id) and self._project in (None, event.project):
            self._dropped += len(self._events) == self._events.maxlen
            self._events.append(event)
            self._has_news.set()

    def report_gap(self) -> None:
        """Report with the next event that at least one was missed."""
        self._dropped += 1

    def close(self) -> None:
        """End the iterator."""
        self._closed = True
        self._has_news.set()

    async def __aiter__(self) -> AsyncIterator[RenderedEvent]:
        while not self._closed:
            await self._has_news.wait()
            self._has_news.clear()
            while self._events:
                if self._dropped:
                    dropped, self._dropped = self._dropped, 0
                    yield RenderedEvent(kind="dropped", data=f'{{"count": {dropped}}}')
                yield self._events.popleft().render()


class Broadcast:
    """Hands every event to every subscriber, in order, until `close`."""

    def __init__(self, *, queue_size: int, max_subscriptions: int = 500, max_per_client: int = 100) -> None:
        self._queue_size = queue_size
        self._max_subscriptions = max_subscriptions
        self._max_per_client = max_per_client
        self._clients: Counter[str | None] = Counter()
        self._subscriptions: set[Subscription] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self.on_subscribe: Callable[[], None] = lambda: None
        """Called when somebody subscribes."""

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Deliver on ``loop`` from now on."""
        self._loop = loop

    @property
    def has_subscribers(self) -> bool:
        """Whether anyone listens."""
        return bool(self._subscriptions)

    def publish(self, events: Iterable[Event]) -> None:
        """Queue events for all subscribers; may be called from any thread, and never waits."""
        if self._loop is not None and not self._closed and self._subscriptions:
            self._loop.call_soon_threadsafe(
                self._deliver, [_QueuedEvent(event.run_id, event.project, event) for event in events]
            )

    def publish_rendered(self, run_id: str, event: RenderedEvent, *, project: str | None = None) -> None:
        """Queue an event that another collector has rendered; may be called from any thread, and never waits."""
        if self._loop is not None and not self._closed and self._subscriptions:
            self._loop.call_soon_threadsafe(self._deliver, [_QueuedEvent(run_id, project, event)])

    def report_gap(self) -> None:
        """Report to all subscribers that they may have missed events; may be called from any thread."""
        if self._loop is not None and not self._closed and self._subscriptions:
            self._loop.call_soon_threadsafe(self._deliver_gap)

    @contextmanager
    def subscribe(
        self,
        run_id: str | None = None,
        *,
        project: str | None = None,
        key_id: str | None = None,
        client: str | None = None,
    ) -> Iterator[Subscription]:
        """Subscribe to the events of one run, or of all runs, from now on.

        If the subscriber is too slow, an event ``dropped`` states how many events it has missed.

        Args:
            run_id: The only run whose events are wanted.
            project: The only project whose events the subscriber may see; an event of none is not for them.
            key_id: The key of the subscriber, with which the subscription ends.
            client: Whose subscriptions are counted together.

        Raises:
            Unavailable: If there are too many subscriptions, in all or of the client.
        """
        if len(self._subscriptions) >= self._max_subscriptions:
            raise Unavailable(
                f"{self._max_subscriptions} streams are open, the most that RLVITALS_MAX_STREAMS and half of "
                "RLVITALS_MAX_CONNECTIONS allow; try again later"
            )
        if self._clients[client] >= self._max_per_client:
            raise Unavailable(
                f"{self._max_per_client} streams of this key or address are open, the most that "
                "RLVITALS_MAX_STREAMS_PER_CLIENT allows; close some, or try again later"
            )
        subscription = Subscription(run_id, self._queue_size, project=project, key_id=key_id)
        self._subscriptions.add(subscription)
        self._clients[client] += 1
        if self._closed:
            subscription.close()
        self.on_subscribe()
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]

    def end_keys(self, key_ids: Collection[str]) -> None:
        """End the subscriptions of keys; may be called from any thread, and never waits."""
        if self._loop is not None and not self._closed:
            self._loop.call_soon_threadsafe(self._end_keys, frozenset(key_ids))

    def close(self) -> None:
        """End every subscription; called on the event loop."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.close()

    def _end_keys(self, key_ids: Collection[str]) -> None:
        for subscription in self._subscriptions:
            if subscription.key_id in key_ids:
                subscription.close()

    def _deliver_gap(self) -> None:
        for subscription in self._subscriptions:
            subscription.report_gap()

    def _deliver(self, events: list[_QueuedEvent]) -> None:
        for subscription in self._subscriptions:
            for event in events:
                subscription.offer(event)
