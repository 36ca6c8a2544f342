"""Delivers claimed messages, each channel in a thread of its own, so that a slow channel delays no other."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from monitor_server.action_links.issuing import LinkIssuer
from monitor_server.errors import Unavailable
from monitor_server.instrumentation.spans import OpenSpan, no_span
from monitor_server.notifications.configuration.networks import Networks
from monitor_server.notifications.configuration.tables import AppriseChannel, Channel
from monitor_server.notifications.delivery.accepted_recipients import AcceptedRecipients
from monitor_server.notifications.delivery.channels import CLAIM_SECONDS, deliver
from monitor_server.notifications.delivery.webhook import Cancellation, DeliveryFailed
from monitor_server.notifications.delivery_results import DeliveryResults
from monitor_server.notifications.messages.chart import draw_picture
from monitor_server.store.database import Store
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.notifications.messages import FORMER, OpenMessage
from monitor_server.store.repositories.runs import Run

__all__ = ["DeliveryThreads"]

log = logging.getLogger(__name__)

STOP_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Delivery:
    thread: threading.Thread
    cancellation: Cancellation


class DeliveryThreads:
    """Delivers at most one message of each channel at a time.

    Args:
        store: The database.
        results: Stores the result of each delivery.
        channel: Returns the channel of a name in the queue.
        networks: The networks that deliveries may connect to; all if None.
        links: Adds the links by which readers act on alerts; None for no links.
        clock: Returns seconds since the epoch.
        on_result: Called with a channel and ``sent``, ``failed`` or ``given_up`` after each attempt.
        on_alerts: Called after a commit with the alerts about channels that have changed, and their run.
        on_end: Called at the end of each delivery.
        span: Opens the span of an attempt.
    """

    def __init__(
        self,
        store: Store,
        results: DeliveryResults,
        channel: Callable[[str], Channel],
        *,
        networks: Networks | None,
        links: LinkIssuer | None,
        clock: Callable[[], float],
        on_result: Callable[[str, str], None],
        on_alerts: Callable[[Sequence[tuple[Run, Alert]]], None],
        on_end: Callable[[], None],
        span: OpenSpan = no_span,
    ) -> None:
        self._store = store
        self._results = results
        self._channel = channel
        self._networks = networks
        self._links = links
        self._clock = clock
        self._on_result = on_result
        self._on_alerts = on_alerts
        self._on_end = on_end
        self._span = span
        self._lock = threading.Lock()
        self._under_way: dict[str, _Delivery] = {}
        self._accepted = AcceptedRecipients()

    @property
    def accepted_channels(self) -> int:
        """The number of channels of which some recipients have accepted a message that is tried again."""
        return len(self._accepted)

    def idle(self, channels: Iterable[str]) -> list[str]:
        """Return the channels among the given ones without a running delivery."""
        with self._lock:
            return [name for name in channels if name not in self._under_way]

    def begin(self, message: OpenMessage) -> None:
        """Begin to deliver a message to an idle channel.

        Raises:
            RuntimeError: If the process may have no more threads for now.
        """
        cancellation = Cancellation()
        thread = threading.Thread(
            target=self._deliver, args=(message, cancellation), name=f"rlvitals-notify-{message.channel}", daemon=True
        )
        with self._lock:  # `_deliver` takes this lock at its end
            thread.start()
            self._under_way[message.channel] = _Delivery(thread, cancellation)

    def stop(self) -> None:
        """End the running deliveries; their messages are delivered again after the next start."""
        with self._lock:
            under_way = list(self._under_way.values())
        for delivery in under_way:
            delivery.cancellation.cancel()
        deadline = time.monotonic() + STOP_SECONDS
        for delivery in under_way:
            delivery.thread.join(max(0.0, deadline - time.monotonic()))

    def _deliver(self, message: OpenMessage, cancellation: Cancellation) -> None:
        claimed_until = time.monotonic() + CLAIM_SECONDS
        try:
            channel = self._channel(message.channel)
            body = self._complete_body(message, channel)
            picture = self._draw(message, channel)
            attributes = {"rlvitals.channel": message.channel, "rlvitals.message_id": message.id}
            with self._span("notify", attributes) as span:
                failure = _failure(lambda: self._attempt(message, channel, body, picture, cancellation))
                if failure is not None:
                    span.fail(str(failure))
            result, changed = self._results.record(message, failure, until=claimed_until)
            if result in ("sent", "given_up"):
                with self._lock:
                    self._accepted.forget(message.channel)
            if result is not None:
                self._on_result(message.channel.partition(FORMER)[0], result)
                self._on_alerts(changed)
        except Unavailable as error:
            # The claim ends with time, and the message is then sent again with the same key.
            log.warning("the result of a notification to %s could not be stored: %s", message.channel, error)
        except Exception:
            log.exception("delivering a notification to %s has failed", message.channel)
        finally:
            with self._lock:
                self._under_way.pop(message.channel, None)
            self._on_end()

    def _complete_body(self, message: OpenMessage, channel: Channel) -> bytes:
        """Return the body with the part that is not stored: the links by which its readers act."""
        if self._links is None or not channel.actions:
            return message.body
        with self._store.read() as repositories:
            body = self._links.add_links(repositories, json.loads(message.body), now=self._clock())
        return json.dumps(body).encode()

    def _draw(self, message: OpenMessage, channel: Channel) -> bytes | None:
        """Return the picture of a message. A repeat has none, because the service may have refused the picture."""
        if not isinstance(channel, AppriseChannel) or not channel.picture or message.attempts:
            return None
        return draw_picture(self._store, json.loads(message.body))

    def _attempt(
        self, message: OpenMessage, channel: Channel, body: bytes, picture: bytes | None, cancellation: Cancellation
    ) -> None:
        with self._lock:
            accepted = self._accepted.of(message.channel, message.id, channel)
        deliver(channel, body, picture=picture, accepted=accepted, cancellation=cancellation, networks=self._networks)


def _failure(attempt: Callable[[], None]) -> DeliveryFailed | None:
    try:
        attempt()
    except DeliveryFailed as error:
        return error
    except Exception as error:  # noqa: BLE001 - an error in one channel is recorded like any failure, without its text
        return DeliveryFailed(f"the delivery ended with {type(error).__name__}")
    return None
