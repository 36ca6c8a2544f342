"""Stores the results of deliveries: a message is sent, is tried again, goes to the fallback, or is given up."""

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from monitor_server.durations import HOUR_SECONDS
from monitor_server.errors import Unavailable
from monitor_server.notifications.channel_alerts import update_channel_alert
from monitor_server.notifications.configuration.digests import digest_of
from monitor_server.notifications.configuration.tables import AppriseChannel, Limits, NotificationFile
from monitor_server.notifications.delivery.incidents import incidents
from monitor_server.notifications.delivery.webhook import DeliveryFailed
from monitor_server.notifications.messages.body import without_alerts
from monitor_server.notifications.planning import retry_delay
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.notifications.channel_status import FAILING_ATTEMPTS
from monitor_server.store.repositories.notifications.messages import FORMER, OpenMessage
from monitor_server.store.repositories.runs import Run
from monitor_server.text_safety.printable import printable

__all__ = ["DeliveryResults"]

log = logging.getLogger(__name__)

STORE_SECONDS: Final = 1.0  # between two attempts to store a result


class DeliveryResults:
    """Stores results until the collector stops.

    Args:
        store: The database.
        file: Returns the channels in force, with their limits and fallback.
        clock: Returns seconds since the epoch.
        is_stopping: Set when the collector stops, which ends the running deliveries; their messages are released.
    """

    def __init__(
        self,
        store: Store,
        file: Callable[[], NotificationFile],
        *,
        clock: Callable[[], float],
        is_stopping: threading.Event,
    ) -> None:
        self._store = store
        self._file = file
        self._clock = clock
        self._is_stopping = is_stopping

    def record(
        self, message: OpenMessage, failure: DeliveryFailed | None, *, until: float
    ) -> tuple[str | None, Sequence[tuple[Run, Alert]]]:
        """Store the result of an attempt. If that fails, try again until the claim on the message ends.

        Args:
            message: The message.
            failure: The reason for which it was not accepted; None if it was accepted.
            until: The end of the claim, on the monotonic clock.

        Returns:
            ``sent``, ``failed`` or ``given_up``; None if the message was released, or if it has failed and is another
            collector's by now. And the alerts about channels that have changed.

        Raises:
            Unavailable: If it could not be stored before the claim ended, or the collector stops.
        """
        while True:
            try:
                with self._store.write() as repositories:
                    return self._write(repositories, message, failure)
            except Unavailable:
                if time.monotonic() >= until or self._is_stopping.wait(STORE_SECONDS):
                    raise

    def _write(
        self, repositories: Repositories, message: OpenMessage, failure: DeliveryFailed | None
    ) -> tuple[str | None, Sequence[tuple[Run, Alert]]]:
        if failure is None:
            repositories.notification_messages.mark_sent(message.id, now=self._clock())
            result = "sent"
        elif not repositories.notification_messages.holds(message):
            # This collector was stopped for longer than its claim, and another one may have delivered the message.
            return None, ()
        elif self._is_stopping.is_set():
            repositories.notification_messages.release(message.id)
            return None, ()
        else:
            result = self._write_failure(repositories, message, failure)
        channel, now = self._file().channels.get(message.channel), self._clock()
        statuses = repositories.channel_statuses
        if channel is None:  # a channel that was removed needs no status
            return result, ()
        if failure is None:
            statuses.record_sent(message.channel, now=now)
        elif result == "given_up":
            statuses.record_given_up(message.channel, error=str(failure), now=now)
        if failure is not None and (result == "given_up" or message.attempts + 1 == FAILING_ATTEMPTS):
            statuses.record_settings(message.channel, digest_of(channel))
        return result, update_channel_alert(repositories, message.channel, now=now)

    def _write_failure(self, repositories: Repositories, message: OpenMessage, failure: DeliveryFailed) -> str:
        messages, now, attempts = repositories.notification_messages, self._clock(), message.attempts + 1
        reason = str(failure)
        if attempts == 1:
            log.warning("a notification to %s failed and is tried again: %s", message.channel, printable(reason))
        file = self._file()
        # The limits of a new document do not apply to the notice about that document.
        limits = Limits() if FORMER in message.channel else file.limits
        is_over = now - message.created_at >= limits.give_up_hours * HOUR_SECONDS
        if failure.is_refusal and attempts >= FAILING_ATTEMPTS:
            # What one message contains must not hold back the alerts that wait behind it. If the receiver refuses the
            # message without alerts too, it refuses everything, and all wait until it is set right.
            body = json.loads(message.body)
            if body["alerts"]:
                short = without_alerts(body)
                # PagerDuty has an event for each; the body of a webhook would have all of them.
                if isinstance(file.channels.get(message.channel), AppriseChannel):
                    short["incidents"] = incidents(body)
                messages.replace_body(message.id, json.dumps(short).encode())
        if is_over:
            if file.fallback is not None and file.fallback.channel != message.channel:
                repositories.notification_redirection.pass_on(message, to=file.fallback.channel, now=now)
            log.error("a notification to %s is given up: %s", message.channel, printable(reason))
            messages.give_up(message.id, error=reason, now=now)
            return "given_up"
        delay = retry_delay(attempts, jitter=random.random())  # noqa: S311 - spreads load, protects nothing
        messages.mark_failed(message.id, error=reason, attempts=attempts, next_attempt_at=now + delay)
        return "failed"
