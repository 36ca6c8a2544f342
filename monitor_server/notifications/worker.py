"""The thread that forms messages and starts their deliveries.

Of several collectors on one PostgreSQL database, one at a time forms and claims messages. A claim ends with time. So
another collector, or the next start, delivers the messages of a killed collector, with the same key: at least once,
never lost.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from monitor_server.access.audit.entries import record_change
from monitor_server.access.callers import Caller, Scope
from monitor_server.action_links.issuing import LinkIssuer
from monitor_server.detection.protocol import Severity
from monitor_server.durations import DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS
from monitor_server.instrumentation.failure_log import FailureLog
from monitor_server.instrumentation.spans import OpenSpan, no_span
from monitor_server.notifications.channel_alerts import end_failure, resolve_removed_channels
from monitor_server.notifications.configuration.digests import digest_of, is_digest_of
from monitor_server.notifications.configuration.networks import Networks
from monitor_server.notifications.configuration.tables import Channel, NotificationFile
from monitor_server.notifications.delivery.channels import CLAIM_SECONDS
from monitor_server.notifications.delivery_results import DeliveryResults
from monitor_server.notifications.delivery_threads import DeliveryThreads
from monitor_server.notifications.messages.assembly import form_message
from monitor_server.notifications.planning import next_message_at
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.runs import Run

__all__ = ["NotificationWorker"]

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.5  # the longest delay before messages of another process are found
CLEANING_SECONDS: Final = 60.0
KEPT_DAYS: Final = 30.0
FILE: Final = Caller(name="whoever wrote the file", scope=Scope.ADMIN)  # the author of what a changed file changes


class NotificationWorker:
    """Forms and delivers messages until it is stopped."""

    def __init__(
        self,
        store: Store,
        file: Callable[[], NotificationFile],
        *,
        refresh: Callable[[], bool] = lambda: False,
        former: Callable[[Repositories], Mapping[str, Channel]] = lambda _: {},
        is_newest: Callable[[], bool] = lambda: True,
        networks: Networks | None = None,
        public_url: str,
        links: LinkIssuer | None = None,
        clock: Callable[[], float],
        on_result: Callable[[str, str], None] = lambda _channel, _result: None,
        on_alerts: Callable[[Sequence[tuple[Run, Alert]]], None] = lambda _changed: None,
        span: OpenSpan = no_span,
    ) -> None:
        """Build a worker, which begins with `start`.

        Args:
            store: The database.
            file: Returns the channels in force, and the times for gathering.
            refresh: Called often; reads the file if it has changed, and returns whether another file is in force.
            former: Updates ``file`` to the document in force in a transaction, and returns the channels of earlier
                versions that must still be notified of a change, by their names in the queue.
            is_newest: Whether ``file`` is the newest document; otherwise messages for channels that it lacks are kept.
            networks: The networks that deliveries may connect to; all if None.
            public_url: The address of the dashboard, for links.
            links: Issues the links by which readers act on alerts; None for no links.
            clock: Returns seconds since the epoch.
            on_result: Called with a channel and ``sent``, ``failed`` or ``given_up`` after each attempt.
            on_alerts: Called after a commit with the alerts about channels that have changed, and their run.
            span: Opens the span of an attempt.
        """
        self._store = store
        self._current = file
        self._taken_up: NotificationFile | None = None
        # Whether the file was changed, and not saved through the API, since it was last processed.
        self._is_changed = False
        self._refresh = refresh
        self._read_former = former
        self._former: Mapping[str, Channel] = {}
        self._is_newest = is_newest
        self._public_url = public_url
        self._links = links
        self._clock = clock
        self._on_alerts = on_alerts
        self._wake = threading.Event()
        self._is_stopping = threading.Event()
        self._deliveries = DeliveryThreads(
            store,
            DeliveryResults(store, file, clock=clock, is_stopping=self._is_stopping),
            lambda name: self._former.get(name) or self._file.channels[name],
            networks=networks,
            links=links,
            clock=clock,
            on_result=on_result,
            on_alerts=on_alerts,
            on_end=self._wake.set,
            span=span,
        )
        self._next_cleaning = 0.0
        self._failures = FailureLog(
            says="notifications could not be read or written, which is tried again", work="checks of notifications"
        )
        self._thread = threading.Thread(target=self._run, name="rlvitals-notifications", daemon=True)

    @property
    def _file(self) -> NotificationFile:
        return self._current()

    @property
    def caches(self) -> dict[str, Callable[[], int]]:
        """Functions that return the number of entries of each cache."""
        return {"accepted_messages": lambda: self._deliveries.accepted_channels}

    @property
    def recent_failure(self) -> str | None:
        """The reason for which no message could be formed or begun, for a while after it; None if that succeeded."""
        return self._failures.recent

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def stop(self) -> None:
        """End at once. Running deliveries are ended, and tried again after the next start."""
        self._is_stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._deliveries.stop()

    def notify(self) -> None:
        """Look for messages to send at once. Any thread may call this."""
        self._wake.set()

    def follow_file(self) -> None:
        """Read the file if it has changed; process what an earlier file, or an earlier process, has left.

        Raises:
            Unavailable: If the database cannot be written; the file is then processed later.
        """
        self._is_changed = self._refresh() or self._is_changed
        if self._file is not self._taken_up:
            self._take_up()

    def plan(self, repositories: Repositories) -> float:
        """Form the messages that are due, and return the latest time of the next look."""
        now = self._clock()
        messages = repositories.notification_messages
        if (fallback := self._fallback(now)) is not None:
            repositories.notification_redirection.pass_on_late(*fallback, now=now)
        repositories.notification_events.remove_answered_escalations(now=now)
        look_again = now + LOOK_SECONDS
        for waiting in messages.waiting(now=now):
            if waiting.channel not in self._file.channels:
                continue
            span = max(HOUR_SECONDS, self._file.grouping.window_seconds)
            recent = messages.recent(waiting.channel, since=now - span)
            grouping, limits = self._file.grouping, self._file.limits
            # The messages about other projects do not count against a critical alert.
            is_exempt = (
                waiting.rank == Severity.CRITICAL.rank
                and len(recent) >= limits.messages_per_hour
                and messages.is_below_limit_of_project(
                    waiting.channel, limits.messages_per_hour, now=now, since=now - HOUR_SECONDS
                )
            )
            at = next_message_at(
                since=waiting.since,
                rank=waiting.rank,
                recent=recent,
                grouping=grouping,
                limits=None if is_exempt else limits,
            )
            if at <= now:
                links = self._links if self._file.channels[waiting.channel].actions else None
                form_message(repositories, waiting, public_url=self._public_url, now=now, links=links)
            else:
                look_again = min(look_again, at)
        return look_again

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            self._wake.clear()
            look_again = self._clock() + LOOK_SECONDS
            try:
                self.follow_file()
                look_again = self._advance()
            except Exception as error:  # noqa: BLE001 - it is logged, and tried again
                self._failures.note_failure(error)
            else:
                self._failures.note_success()
            self._wake.wait(min(LOOK_SECONDS, max(0.0, look_again - self._clock())))

    def _fallback(self, now: float) -> tuple[str, float] | None:
        """Return the fallback, and the time before which a message was formed if the fallback stands in for it."""
        fallback = self._file.fallback
        return None if fallback is None else (fallback.channel, now - fallback.after_minutes * MINUTE_SECONDS)

    def _take_up(self) -> None:
        """Process the rest of an earlier process, or of an earlier file; record a file that has changed."""
        with self._store.write() as repositories:
            # Messages for a channel that is saved meanwhile must not be treated as left over.
            repositories.notification_documents.lock()
            former, file = self._read_former(repositories), self._file
            if self._taken_up is None and not self._store.is_shared:
                repositories.notification_messages.release()
            now = self._clock()
            if self._is_changed:
                record_change(
                    repositories, FILE, "notifications.reload", "the file of notifications", now=now,
                    detail=f"{len(file.channels)} channels, {len(file.routes)} routes",
                )  # fmt: skip
            removed = 0
            changed: list[tuple[Run, Alert]] = []
            if self._is_newest():
                known = [*file.channels, *former]
                removed = repositories.notification_messages.remove_unknown_channels(known)
                repositories.channel_statuses.remove_unknown_channels(list(file.channels))
                changed = resolve_removed_channels(repositories, file.channels, now=now)
            statuses = repositories.channel_statuses
            for name in statuses.failing(file.channels):
                digest = statuses.settings(name)
                if digest is None:  # an earlier version has recorded the failure
                    statuses.record_settings(name, digest_of(file.channels[name]))
                elif not is_digest_of(digest, file.channels[name]):
                    changed += end_failure(repositories, name, now=now)
        self._taken_up, self._is_changed, self._former = file, False, former
        self._on_alerts(changed)
        if removed:
            log.warning("%d notifications waited for channels that are no longer set up; they are dropped", removed)

    def _advance(self) -> float:
        now = self._clock()
        idle = self._deliveries.idle((*self._file.channels, *self._former))
        has_work = False
        if idle:
            with self._store.read() as repositories:
                has_work = repositories.notification_messages.has_due(idle, now=now)
                if not has_work and (fallback := self._fallback(now)) is not None:
                    has_work = repositories.notification_redirection.has_late(*fallback, now=now)
        is_cleaning = time.monotonic() >= self._next_cleaning
        if not has_work and not is_cleaning:
            return now + LOOK_SECONDS
        with self._store.write() as repositories:
            messages = repositories.notification_messages
            if not messages.lock():
                return now + LOOK_SECONDS
            look_again = self.plan(repositories)
            now = self._clock()  # read again, because it must not be earlier than the messages that were just formed
            claimed = messages.claim(channels=idle, now=now, until=now + CLAIM_SECONDS)
            if is_cleaning:
                messages.remove_old(before=now - KEPT_DAYS * DAY_SECONDS)
                if self._links is not None:
                    self._links.remove_old(repositories, now=now)
                self._next_cleaning = time.monotonic() + CLEANING_SECONDS
        for place, message in enumerate(claimed):
            try:
                self._deliveries.begin(message)
            except RuntimeError:  # the process may have no more threads for now
                with self._store.write() as repositories:
                    for left in claimed[place:]:
                        repositories.notification_messages.release(left.id)
                raise
        return look_again
