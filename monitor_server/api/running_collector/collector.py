"""The parts of one collector, for its routes: their start and end, and the writes of a request to the database."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from monitor_server.access.keys.known_keys import KnownKeys
from monitor_server.access.oidc.sign_in import OidcSignIn
from monitor_server.access.rate_limits import AddressLimits
from monitor_server.action_links.lookup import LinkLookup
from monitor_server.action_links.signing import LinkSecrets
from monitor_server.action_requests.due_requests import RequestDelivery
from monitor_server.alerts.silencing import Silencing
from monitor_server.api.live_events.broadcast import Broadcast
from monitor_server.api.live_events.relay import Relay
from monitor_server.api.running_collector.receipts import Receipts
from monitor_server.api.running_collector.shared_check import SharedCheck
from monitor_server.api.running_collector.verdict_wait import VerdictWait
from monitor_server.detection.calibration import BUILTIN, Calibration
from monitor_server.exposition.prometheus import Exposition
from monitor_server.http_server.read_limits import Admission, Turns, dry_runs, exports, incident_reports, waiting_reads
from monitor_server.ingest.activity import Activity
from monitor_server.ingest.appending import BatchAppender
from monitor_server.ingest.deliveries import Deliveries
from monitor_server.ingest.large_batches import LargeBatches
from monitor_server.ingest.record_log.log_append import LogAppender
from monitor_server.ingest.writer import Writer
from monitor_server.instrumentation.failure_log import FailureLog
from monitor_server.notifications.configuration.current import CurrentFile
from monitor_server.notifications.configuration.stored import EMPTY, SavedDocument
from monitor_server.notifications.configuration.tables import NotificationFile
from monitor_server.notifications.worker import NotificationWorker
from monitor_server.retention.worker import RetentionWorker
from monitor_server.rules.administration.rule_file import AppliedFile
from monitor_server.settings import Settings
from monitor_server.step_processing.projector import Projector
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories

__all__ = ["Collector"]

# Decoding a body of 32 MiB takes up to half a gigabyte for a moment, and each large batch adds its part to every
# commit.
MAX_LARGE_BATCHES = 2
# Shown views, per second, with ten seconds' worth at once: people read each of them, and pages that follow load it.
VIEWS_PER_CALLER = 0.2
VIEWS_ALTOGETHER = 1.0
# A receiver that hangs occupies a thread for up to 45 s, and receipts of trainers need the same few threads.
MAX_CHANNEL_TESTS = 2

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """The parts of one collector, as `build_collector` makes them; ``projector`` is None if another process has it."""

    settings: Settings
    clock: Callable[[], float]
    store: Store
    log: LogAppender
    writer: Writer
    appender: BatchAppender
    deliveries: Deliveries
    activity: Activity
    projector: Projector | None
    verdict_wait: VerdictWait
    requests: RequestDelivery
    receipts: Receipts
    retention: RetentionWorker | None
    broadcast: Broadcast
    relay: Relay
    exposition: Exposition
    keys: KnownKeys
    silencing: Silencing
    link_secrets: LinkSecrets
    links: LinkLookup
    calibration: Calibration = BUILTIN
    notifier: NotificationWorker | None = None
    notifications: CurrentFile | SavedDocument | None = None
    oidc: OidcSignIn | None = None
    rule_file: AppliedFile | None = None
    waiting_reads: Admission = field(default_factory=waiting_reads)
    dry_runs: Admission = field(default_factory=dry_runs)
    exports: Turns = field(default_factory=exports)
    incident_reports: Turns = field(default_factory=incident_reports)
    # Of those who save or reload settings one at a time is checked: Apprise needs a process and a thread for it.
    settings_turns: asyncio.Lock = field(default_factory=asyncio.Lock)
    channel_tests: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CHANNEL_TESTS))
    shown_views: AddressLimits = field(
        default_factory=lambda: AddressLimits(
            "views were shown", per_address=VIEWS_PER_CALLER, altogether=VIEWS_ALTOGETHER
        )
    )
    large_batches: LargeBatches = field(default_factory=lambda: LargeBatches(MAX_LARGE_BATCHES))
    exhaustion: FailureLog = field(
        default_factory=lambda: FailureLog(says="a request could not be answered", work="requests")
    )
    health: SharedCheck[Any] = field(default_factory=SharedCheck)
    scrape: SharedCheck[bytes] = field(default_factory=SharedCheck)

    def start(self) -> None:
        """Begin to write and to project."""
        for part in (self.keys, self.writer, self.relay, self.projector, self.retention, self.notifier):
            if part is not None:
                part.start()

    def begin_stop(self) -> None:
        """End the streams, and refuse large batches that are not read yet; called on the event loop."""
        self.broadcast.close()
        self.large_batches.close()

    def stop(self) -> None:
        """Commit the jobs that wait, then end; the next start projects the rest."""
        for part in (
            self.writer, self.oidc, self.retention, self.projector, self.notifier, self.relay, self.keys,
        ):  # fmt: skip
            if part is not None:
                part.stop()
        self.store.close()

    async def write(self, key: str, change: Callable[[Repositories], Result]) -> Result:
        """Write a change in a transaction; after the commit, return the result of ``change``.

        Args:
            key: The changed object, such as the id of a run, by which the writer orders its work.
            change: Writes the change.

        Raises:
            CollectorError: If ``change`` raises it.
            OutcomeUnknown: If the database has not confirmed the change in time.
            Unavailable: If it could not be stored.
        """
        return await self.deliveries.wait(self.submit(key, change))

    def submit(self, key: str, change: Callable[[Repositories], Result]) -> "Future[Result]":
        """Begin to write a change, as `write` does, and return its future.

        Raises:
            Unavailable: If too much waits to be written, or the collector stops.
        """

        def write(repositories: Repositories) -> Result:
            self.log.prepare_change(repositories, key)
            return change(repositories)

        return self.writer.submit(key, write)

    def channels(self, repositories: Repositories) -> NotificationFile:
        """Return the channels and routes that are in force in a transaction."""
        return EMPTY if self.notifications is None else self.notifications.of(repositories)

    def failing_channels(self, repositories: Repositories) -> set[str]:
        """Return the channels in force that do not get their messages; all of them while none can be formed."""
        channels = self.channels(repositories).channels
        if self.notifier is not None and self.notifier.recent_failure is not None:
            return set(channels)
        return set(repositories.channel_statuses.failing(channels))
