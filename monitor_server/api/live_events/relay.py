"""Sends events to the subscribers of other collectors on the same database, and receives theirs.

A collector with subscribers announces them every few seconds; while no collector does, no events are sent. One that has
just begun cannot know yet, and sends them.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from monitor_server.api.live_events.broadcast import Broadcast
from monitor_server.api.live_events.events import RenderedEvent, render
from monitor_server.step_processing.events import Event

__all__ = ["Relay"]

log = logging.getLogger(__name__)

WATCH_SECONDS = 3.0
# A collector whose last announcement is older has no subscribers any more, or is gone.
WATCHED_SECONDS = 10.0
# A collector takes over what has waited as soon as it begins, and hears of subscribers `WATCH_SECONDS` later at most.
UNHEARD_SECONDS = 10.0


class Channel(Protocol):
    """The transport of messages between collectors."""

    @property
    def is_listening(self) -> bool:
        """Whether messages of other collectors arrive now."""

    @property
    def dropped(self) -> int:
        """Messages of this collector that were not sent."""

    @property
    def waiting(self) -> int:
        """Messages that wait to be sent."""

    @property
    def unfinished(self) -> int:
        """Other collectors of whose last message a part is missing."""

    def start(self) -> None:
        """Begin to send and to receive."""

    def stop(self) -> None:
        """End."""

    def send(self, message: Callable[[], str]) -> None:
        """Queue a message to all other collectors."""


OpenChannel = Callable[[Callable[[str], None], Callable[[], None]], Channel | None]


class Relay:
    """Publishes events here and on all other collectors; on SQLite there is only one collector, and only this one."""

    def __init__(
        self,
        broadcast: Broadcast,
        *,
        open_channel: OpenChannel,
        on_relayed: Callable[[str, int], None] = lambda _direction, _events: None,
    ) -> None:
        """Build a relay, which begins with `start`.

        Args:
            broadcast: The subscribers of this collector.
            open_channel: Called with the receivers of messages and of gaps; returns None if there are no other
                collectors.
            on_relayed: Called with ``sent``, ``received`` or ``dropped``, and the number of events.
        """
        self._broadcast = broadcast
        self._channel = open_channel(self._receive, broadcast.report_gap)
        self._on_relayed = on_relayed
        self._watched_until = 0.0
        self._dropped = 0  # up to the last report
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._announce_forever, name="rlvitals-relay", daemon=True)

    def start(self) -> None:
        """Begin to relay."""
        if self._channel is not None:
            self._watched_until = time.monotonic() + UNHEARD_SECONDS
            self._broadcast.on_subscribe = self._announce
            self._channel.start()
            self._thread.start()

    def stop(self) -> None:
        """End without sending the messages that wait."""
        self._is_stopping.set()
        if self._channel is not None and self._thread.ident is not None:
            self._thread.join()
            self._channel.stop()

    @property
    def is_watched(self) -> bool:
        """Whether any subscriber, here or at another collector, wants an event for each step."""
        return self._broadcast.has_subscribers or self.is_watched_elsewhere

    @property
    def is_watched_elsewhere(self) -> bool:
        """Whether another collector has subscribers, or may have some of which this one has not heard yet."""
        return time.monotonic() < self._watched_until

    @property
    def is_listening(self) -> bool:
        """Whether events of other collectors arrive now."""
        return self._channel is not None and self._channel.is_listening

    @property
    def caches(self) -> dict[str, Callable[[], int]]:
        """Functions that return the number of messages that wait to be sent, and of those that are not whole yet."""
        channel = self._channel
        return {
            "relay_messages": lambda: 0 if channel is None else channel.waiting,
            "relay_senders": lambda: 0 if channel is None else channel.unfinished,
        }

    def publish(self, events: Sequence[Event]) -> None:
        """Queue events for all subscribers; may be called from any thread, and never waits."""
        self._broadcast.publish(events)
        if self._channel is not None and events and self.is_watched_elsewhere:
            for event in events:
                self._channel.send(partial(_encode, event))
            self._on_relayed("sent", len(events))

    def _announce(self) -> None:
        if self._channel is not None:
            self._channel.send(lambda: json.dumps({"watching": True}))

    def _announce_forever(self) -> None:
        while not self._is_stopping.wait(WATCH_SECONDS):
            self._report_dropped()
            if self._broadcast.has_subscribers:
                self._announce()

    def _report_dropped(self) -> None:
        dropped = 0 if self._channel is None else self._channel.dropped
        if dropped > self._dropped:
            self._on_relayed("dropped", dropped - self._dropped)
        self._dropped = dropped

    def _receive(self, message: str) -> None:
        try:
            fields = dict(json.loads(message).items())  # an object; anything else is an error
            if "watching" in fields:
                self._watched_until = time.monotonic() + WATCHED_SECONDS
                return
            event = RenderedEvent(kind=str(fields["kind"]), data=str(fields["data"]))
            run_id, project = fields["run_id"], fields.get("project")
            run_id = None if run_id is None else str(run_id)
            _check(event)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            log.warning(
                "a message of another collector is not understood; that collector may be of a newer version: %s", error
            )
            return
        self._on_relayed("received", 1)
        self._broadcast.publish_rendered(run_id, event, project=project)


def _check(event: RenderedEvent) -> None:
    """Raise ValueError unless a relayed event is one event of the stream, and not text with several."""
    if not event.kind.isidentifier() or "\n" in event.data or "\r" in event.data:
        raise ValueError(f"an event must have a kind and one line of data, got {event.kind[:40]!r}")
    json.loads(event.data)


def _encode(event: Event) -> str:
    rendered = render(event)
    return json.dumps({"run_id": event.run_id, "project": event.project, "kind": rendered.kind, "data": rendered.data})
