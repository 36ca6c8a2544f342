"""Passes events to the subscribers of the stream, on the event loop.

The queue of each subscriber is bounded, so a slow reader loses events and delays no other reader.
"""

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from monitor_server.api.live_events.events import RenderedEvent, render
from monitor_server.api.live_events.hand_over import HandOver
from monitor_server.errors import Unavailable
from monitor_server.step_processing.events import Event

__all__ = ["Broadcast", "Subscription"]

CHECK_SECONDS: Final = 2.0  # the longest time for which a stream continues after its subscriber has lost the permission


class _QueuedEvent:
    """An event that is rendered when the first subscriber takes it, and once for all subscribers."""

    def __init__(self, run_id: str | None, project: str | None, event: Event | RenderedEvent) -> None:
        self.run_id = run_id
        self.project = project
        self._event = event

    def render(self) -> RenderedEvent:
        if not isinstance(self._event, RenderedEvent):
            self._event = render(self._event)
        return self._event


class Subscription:
    """The events of one subscriber, as an asynchronous iterator that ends when the broadcast is closed.

    It also ends when the subscriber has lost the permission; the last event, ``ended``, then states the reason.
    """

    def __init__(
        self,
        run_id: str | None,
        size: int,
        *,
        project: str | None = None,
        refusal: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._run_id = run_id
        self._project = project
        self._refusal = refusal
        self._check_at = 0.0
        self._events: deque[_QueuedEvent] = deque(maxlen=size)
        self._dropped = 0
        self._has_news = asyncio.Event()
        self._closed = False

    @property
    def queued_events(self) -> int:
        """The number of events that wait for this subscriber, at most ``size``."""
        return len(self._events)

    def offer(self, event: _QueuedEvent) -> None:
        """Queue an event; the oldest is dropped if the queue is full."""
        concerns_run = event.run_id is None or self._run_id in (None, event.run_id)
        if concerns_run and self._project in (None, event.project):
            self._dropped += len(self._events) == self._events.maxlen
            self._events.append(event)
            self._has_news.set()

    def report_gap(self) -> None:
        """Report that at least one event was missed, although no other may follow."""
        self._dropped += 1
        self._has_news.set()

    def recheck(self) -> None:
        """Check at once whether the subscriber may still read the events."""
        self._check_at = 0.0
        self._has_news.set()

    def close(self) -> None:
        """End the iterator."""
        self._closed = True
        self._has_news.set()

    async def __aiter__(self) -> AsyncIterator[RenderedEvent]:
        while not self._closed:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._has_news.wait()
            self._has_news.clear()
            while True:
                reason = None if self._closed else self._check()
                if reason is not None:
                    yield RenderedEvent(kind="ended", data=json.dumps({"reason": reason}))
                    return
                if self._dropped:
                    dropped, self._dropped = self._dropped, 0
                    yield RenderedEvent(kind="dropped", data=f'{{"count": {dropped}}}')
                if not self._events:
                    break
                yield self._events.popleft().render()

    def _check(self) -> str | None:
        """Return why the subscriber may not read further, or None; the answer is kept until the next check."""
        now = asyncio.get_running_loop().time()
        if now < self._check_at:
            return None
        self._check_at = now + CHECK_SECONDS
        return self._refusal()


class Broadcast:
    """Passes every event to every subscriber, in order, until `close`."""

    def __init__(self, *, queue_size: int, max_subscriptions: int = 500, max_per_client: int = 100) -> None:
        self._queue_size = queue_size
        self._max_subscriptions = max_subscriptions
        self._max_per_client = max_per_client
        self._clients: Counter[str | None] = Counter()
        self._subscriptions: set[Subscription] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._hand_over: HandOver[_QueuedEvent] = HandOver(self._deliver, on_loss=self._deliver_gap)
        self.on_subscribe: Callable[[], None] = lambda: None
        """Called when a client subscribes."""

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Deliver on ``loop`` from now on."""
        self._loop = loop

    @property
    def has_subscribers(self) -> bool:
        """Whether there is any subscriber."""
        return bool(self._subscriptions)

    @property
    def subscriptions(self) -> int:
        """The number of subscribers, at most ``max_subscriptions``."""
        return len(self._subscriptions)

    @property
    def queued_events(self) -> int:
        """The number of events that wait for their subscribers, at most ``queue_size`` for each."""
        return sum(each.queued_events for each in tuple(self._subscriptions))

    @property
    def published_events(self) -> int:
        """The number of events on their way to the queues of the subscribers; it is bounded."""
        return len(self._hand_over)

    def publish(self, events: Iterable[Event]) -> None:
        """Queue events for all subscribers; may be called from any thread, and never waits."""
        if self._loop is not None and not self._closed and self._subscriptions:
            queued = [_QueuedEvent(event.run_id, event.project, event) for event in events]
            self._hand_over.put(self._loop, queued)

    def publish_rendered(self, run_id: str | None, event: RenderedEvent, *, project: str | None = None) -> None:
        """Queue an event that another collector has rendered; may be called from any thread, and never waits."""
        if self._loop is not None and not self._closed and self._subscriptions:
            self._hand_over.put(self._loop, [_QueuedEvent(run_id, project, event)])

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
        refusal: Callable[[], str | None] = lambda: None,
        client: str | None = None,
    ) -> Iterator[Subscription]:
        """Subscribe to the events of one run, or of all runs, from now on; events without a run go to every subscriber.

        If the subscriber is too slow, an event ``dropped`` states how many events it has missed.

        Args:
            run_id: The only run whose events are wanted.
            project: The only project whose events the subscriber may see; events without a project are then left out.
            refusal: Returns the reason for which the subscriber may not read further, or None; called every
                `CHECK_SECONDS`.
            client: The client whose subscriptions are counted together.

        Raises:
            Unavailable: If there are too many subscriptions, in total or of the client.
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
        subscription = Subscription(run_id, self._queue_size, project=project, refusal=refusal)
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

    def recheck(self) -> None:
        """Check at once whether the subscribers may read further; may be called from any thread, and never waits."""
        if self._loop is not None and not self._closed:
            self._loop.call_soon_threadsafe(self._recheck)

    def close(self) -> None:
        """End every subscription; called on the event loop."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.close()

    def _recheck(self) -> None:
        for subscription in self._subscriptions:
            subscription.recheck()

    def _deliver_gap(self) -> None:
        for subscription in self._subscriptions:
            subscription.report_gap()

    def _deliver(self, events: Sequence[_QueuedEvent]) -> None:
        for subscription in self._subscriptions:
            for event in events:
                subscription.offer(event)
