"""The parts of one collector, and what routes ask of several of them at once."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from monitor_server.access.audit.changes import record_change
from monitor_server.access.callers import Caller
from monitor_server.access.keys.known_keys import KnownKeys
from monitor_server.access.oidc.sign_in import OidcSignIn
from monitor_server.access.rate_limits import AddressLimits
from monitor_server.action_links.signing import LinkSecrets, hash_token
from monitor_server.action_links.using import LinkState, LinkUse, check_link, use_link
from monitor_server.alerts.acknowledgement import AlertAcknowledgement, acknowledge
from monitor_server.alerts.silencing import AppliedSilences, Silencing
from monitor_server.alerts.verdict import RecentVerdicts, load_verdict
from monitor_server.api.live_events.broadcast import Broadcast
from monitor_server.api.live_events.relay import Relay
from monitor_server.detection.calibration import BUILTIN, Calibration
from monitor_server.errors import InvalidField, OutcomeUnknown, RequestNotPossible, Unavailable
from monitor_server.exposition.prometheus import Exposition
from monitor_server.http_server.read_limits import DryRuns, WaitingReads
from monitor_server.ingest.activity import Activity
from monitor_server.ingest.deliveries import Deliveries
from monitor_server.ingest.large_batches import LargeBatches
from monitor_server.ingest.log.log_append import Appended, Log
from monitor_server.ingest.reset import reset_run
from monitor_server.ingest.validation.validate import ValidBatch
from monitor_server.ingest.writer import Writer
from monitor_server.instrumentation.spans import OpenSpan, no_span
from monitor_server.notifications.configuration.current import CurrentFile
from monitor_server.notifications.configuration.stored import EMPTY, SavedDocument
from monitor_server.notifications.configuration.tables import NotificationFile
from monitor_server.notifications.worker import NotificationWorker
from monitor_server.projection.projector import Projector
from monitor_server.retention.worker import RetentionWorker
from monitor_server.settings import Settings
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.action_requests import StoredRequest
from monitor_server.trainer_requests.delivery import RequestDelivery
from monitor_server.trainer_requests.requesting import RequestableAction, request_action
from trainer_hooks import wire

__all__ = ["Collector", "Health"]

# More in one commit would hold everybody else up for longer than a tenth of a second.
MAX_RECORDS_PER_COMMIT = 500
MAX_BYTES_PER_COMMIT = 1024 * 1024
# Decoding a body of 32 MiB takes up to half a gigabyte for a moment, and each adds its part to every commit.
MAX_LARGE_BATCHES = 2
# Links that are looked up at once, so that guesses leave threads to everybody else.
LINK_LOOKUPS = 2
# Where so many records wait to be projected, a receipt does not wait for its own.
MAX_RECORDS_WAITED_BEHIND = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether batches are stored and projected now.

    Attributes:
        problem: Why not, in words; None where all is well.
        quarantined: Runs that cannot be processed; their records are stored.
        failing_channels: Channels of notifications that do not accept their messages.
    """

    problem: str | None
    quarantined: int
    failing_channels: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """The parts of one collector, as `build_collector` makes them; ``projector`` is None if another process has it."""

    settings: Settings
    clock: Callable[[], float]
    store: Store
    log: Log
    writer: Writer
    activity: Activity
    projector: Projector | None
    retention: RetentionWorker | None
    broadcast: Broadcast
    relay: Relay
    exposition: Exposition
    keys: KnownKeys
    silencing: Silencing
    link_secrets: LinkSecrets
    requests: RequestDelivery
    calibration: Calibration = BUILTIN
    notifier: NotificationWorker | None = None
    notifications: CurrentFile | SavedDocument | None = None
    oidc: OidcSignIn | None = None
    deliveries: Deliveries = field(default_factory=Deliveries)
    recent_verdicts: RecentVerdicts = field(default_factory=RecentVerdicts)
    waiting_reads: WaitingReads = field(default_factory=WaitingReads)
    dry_runs: DryRuns = field(default_factory=DryRuns)
    span: OpenSpan = no_span
    # Nobody can guess a link or a sign-in; the limits bound the work, in requests per second.
    # A genuine link is not counted: behind a proxy, a stranger who guesses would use up what others need.
    link_limits: AddressLimits = field(
        default_factory=lambda: AddressLimits("unknown links were opened", per_address=5.0, altogether=50.0)
    )
    link_lookups: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LINK_LOOKUPS))
    # Of those who save settings one at a time is checked: Apprise needs a process and a thread for it.
    settings_turns: asyncio.Lock = field(default_factory=asyncio.Lock)
    large_batches: LargeBatches = field(default_factory=lambda: LargeBatches(MAX_LARGE_BATCHES))

    def channels(self, repositories: Repositories) -> NotificationFile:
        """Return the channels and routes that are in force in a transaction."""
        return EMPTY if self.notifications is None else self.notifications.of(repositories)

    def start(self) -> None:
        """Begin to write and to project."""
        self.keys.start()
        self.writer.start()
        self.relay.start()
        if self.projector is not None:
            self.projector.start()
        if self.retention is not None:
            self.retention.start()
        if self.notifier is not None:
            self.notifier.start()

    def begin_stop(self) -> None:
        """End the streams, and refuse large batches that are not read yet; called on the event loop."""
        self.broadcast.close()
        self.large_batches.close()

    def stop(self) -> None:
        """Commit what waits, then end; what is not projected by then is at the next start."""
        self.writer.stop()
        if self.oidc is not None:
            self.oidc.stop()
        if self.retention is not None:
            self.retention.stop()
        if self.projector is not None:
            self.projector.stop()
        if self.notifier is not None:
            self.notifier.stop()
        self.relay.stop()
        self.keys.stop()
        self.store.close()

    async def append(self, valid: ValidBatch) -> Appended:
        """Append a batch to its run's log, and return what became of it after the commit.

        A large batch is committed in parts, so that the batches of others are committed in between.

        Raises:
            Unavailable: If it could not be stored. Parts before may be; when it is sent again, they are duplicates.
        """
        parts = valid.parts(most_records=MAX_RECORDS_PER_COMMIT, most_bytes=MAX_BYTES_PER_COMMIT)
        appended = [await self._append_part(part) for part in parts]
        if len(appended) == 1:
            return appended[0]
        return replace(
            appended[-1],
            accepted=sum(part.accepted for part in appended),
            duplicates=sum(part.duplicates for part in appended),
            refused_responses=sum(part.refused_responses for part in appended),
            rejected=sorted((each for part in appended for each in part.rejected), key=lambda each: each.index),
        )

    async def _append_part(self, valid: ValidBatch) -> Appended:
        future = self.writer.submit(
            valid.run_id,
            lambda repositories: self.log.append_deferred(repositories, valid),
            weight=1 + len(valid.records),
            size=valid.size,
        )
        with self.span("append batch", {"rlvitals.run_id": valid.run_id, "rlvitals.records": len(valid.records)}):
            return await self.deliveries.wait(future)

    async def receipt(self, appended: Appended) -> wire.Receipt:
        """Return the receipt of a batch that was appended.

        It has the newest verdict that is known: that on this very batch, where it is projected in this process within
        ``verdict_wait_seconds``.
        """
        if self.projector is not None and self.projector.is_near(
            appended.run_id, appended.log_end - appended.accepted, within=MAX_RECORDS_WAITED_BEHIND
        ):
            await self._projected(appended.run_id, appended.log_end)
        return wire.Receipt(
            run_id=appended.run_id,
            accepted=appended.accepted,
            duplicates=appended.duplicates,
            refused_responses=appended.refused_responses,
            newest_attempt=appended.newest_attempt if appended.attempt < appended.newest_attempt else None,
            rejected=list(appended.rejected),
            requests=await self.requests.requests(appended.run_id, appended.attempt),
            **(await self._verdict_fields(appended)),
        )

    async def acknowledge(self, given: AlertAcknowledgement, *, author: Caller) -> None:
        """Acknowledge an alert in the name of its author, and wait a little for what detection makes of it.

        Raises:
            UnknownAlert: If there is no such alert.
            Unavailable: If it could not be stored.
        """
        now = self.clock()
        signed = replace(given, by=author.signature(given.by))

        def write(repositories: Repositories) -> int:
            position = acknowledge(repositories, signed, now=now)
            project = repositories.runs.project(given.run_id)
            record_change(
                repositories, author, "alert.acknowledge", given.alert_id,
                now=now, project=project, by=given.by,
            )  # fmt: skip
            return position

        position = await asyncio.wrap_future(self.writer.submit(given.run_id, write))
        await self._projected(given.run_id, position)

    async def use_link(self, token: str, confirmation: str) -> LinkUse:
        """Do what a link of a notification does, once, and return what came of it.

        Only a link that can be used, and whose page was confirmed, reaches the writer.

        Raises:
            RequestNotPossible: If the trainer cannot be asked; the link can be used again.
            Unavailable: If nothing was begun.
            OutcomeUnknown: If it may have been stored.
        """
        now = self.clock()

        def check() -> LinkUse:
            with self.store.read() as repositories:
                return check_link(repositories, self.link_secrets, token, confirmation, now=now)

        async with self.link_lookups:
            checked = await asyncio.to_thread(check)
        if checked.found is None or checked.found.state is not LinkState.OPEN or not checked.is_confirmed:
            return checked

        def write(repositories: Repositories) -> tuple[LinkUse, AppliedSilences]:
            use = use_link(repositories, self.link_secrets, token, confirmation, now=now)
            return use, self.silencing.apply(repositories) if use.is_done else AppliedSilences([], has_more=False)

        under_way = self.writer.submit(hash_token(token), write)
        try:
            use, applied = await asyncio.wrap_future(under_way)
        except RequestNotPossible:
            raise
        except Exception as error:
            raise OutcomeUnknown("the database has not confirmed the change") from error
        self.silencing.report(applied)
        if use.found is not None and use.is_done:
            self.requests.note(use.found.link.run_id)
        if use.found is not None and use.position is not None:
            await self._projected(use.found.link.run_id, use.position)
        return use

    async def request_action(
        self, alert_id: str, action: RequestableAction, *, by: str, note: str, author: Caller
    ) -> StoredRequest:
        """Ask the trainer of an alert's run for an action, in the name of its author.

        Raises:
            UnknownAlert: If there is no such alert.
            RequestNotPossible: If the alert is resolved, the run has ended, or the same request waits.
            Unavailable: If it could not be stored.
        """
        now, signed = self.clock(), author.signature(by)

        def write(repositories: Repositories) -> StoredRequest:
            request = request_action(repositories, alert_id, action, by=signed, note=note, now=now)
            project = repositories.runs.project(request.run_id)
            record_change(
                repositories, author, f"run.{action}", request.run_id,
                now=now, project=project, by=by, detail=f"asked for, about alert {alert_id}",
            )  # fmt: skip
            return request

        request = await asyncio.wrap_future(self.writer.submit(alert_id, write))
        self.requests.note(request.run_id)
        return request

    async def change_silences(self, key: str, change: Callable[[Repositories], None]) -> None:
        """Change silences in a transaction, and apply them to the alerts that fire.

        Args:
            key: The silence, by which the writer orders its work.
            change: Writes the change.

        Raises:
            CollectorError: What ``change`` raises.
            Unavailable: If it could not be stored.
        """

        def write(repositories: Repositories) -> AppliedSilences:
            change(repositories)
            return self.silencing.apply(repositories)

        applied = await asyncio.wrap_future(self.writer.submit(key, write))
        self.silencing.report(applied)
        while applied.has_more:
            applied = await asyncio.wrap_future(self.writer.submit(key, self.silencing.apply))
            self.silencing.report(applied)

    async def reset_run(
        self, run_id: str, *, author: Caller, attempt: int | None = None, world_size: int | None = None
    ) -> None:
        """Reset a run's newest attempt or the number of its ranks, and try it again if it is quarantined.

        Raises:
            UnknownRun: If there is no such run.
            InvalidField: If the run has no such attempt, or the settings do not allow the world size.
            Unavailable: If it could not be stored.
        """
        now, most = self.clock(), self.settings.max_world_size
        if world_size is not None and not 1 <= world_size <= most:
            raise InvalidField(
                f"world_size must lie in 1 to {most}, got {world_size}; RLVITALS_MAX_WORLD_SIZE is the most"
            )

        def reset(repositories: Repositories) -> int:
            self.log.forget(run_id)
            position = reset_run(repositories, run_id, attempt=attempt, world_size=world_size, now=now)
            project = repositories.runs.project(run_id)
            detail = f"attempt {attempt}, world size {world_size}"
            record_change(repositories, author, "run.reset", run_id, now=now, project=project, detail=detail)
            return position

        position = await asyncio.wrap_future(self.writer.submit(run_id, reset))
        if self.retention is not None:
            self.retention.notify()
        await self._projected(run_id, position)

    async def delete(self, key: str, begin: Callable[[Repositories], list[str]]) -> list[str]:
        """Begin to delete runs, and return their ids.

        Args:
            key: The run or the project, by which the writer orders its work.
            begin: Begins the deletion in a transaction.

        Raises:
            CollectorError: What ``begin`` raises.
            Unavailable: If it could not be stored.
        """
        deleted = await asyncio.wrap_future(self.writer.submit(key, begin))
        if self.retention is not None:
            self.retention.notify()
        return deleted

    def health(self) -> Health:
        """Write to the database, read from it, and look at the threads."""
        try:
            self.store.probe()
            with self.store.read() as repositories:
                quarantined = len(repositories.projection_queue.quarantined())
                failing = len(self.failing_channels(repositories))
        except Unavailable as error:
            return Health(problem=str(error), quarantined=0)
        problem = self.writer.recent_failure
        if not self.writer.is_alive:
            problem = "the writer has ended; restart the collector"
        elif self.projector is not None and not self.projector.is_alive:
            problem = "the projector has ended or hangs; restart the collector"
        return Health(problem=problem, quarantined=quarantined, failing_channels=failing)

    def failing_channels(self, repositories: Repositories) -> set[str]:
        """Return the channels in force that do not accept their messages."""
        return repositories.notifications.failing(self.channels(repositories).channels)

    async def _projected(self, run_id: str, position: int) -> None:
        """Wait until a run is projected up to a position, no longer than the settings say."""
        if self.projector is None or not self.settings.verdict_wait_seconds:
            return
        waited = asyncio.wrap_future(self.projector.wait_for(run_id, position))
        try:
            await asyncio.wait_for(waited, self.settings.verdict_wait_seconds)
        except TimeoutError:
            self.projector.report_late()

    async def _verdict_fields(self, appended: Appended) -> dict[str, Any]:
        run_id = appended.run_id
        verdict = None if self.projector is None else self.projector.known_verdict(run_id)
        if verdict is None:
            verdict = self.recent_verdicts.find(run_id)
            if not self.recent_verdicts.is_recent(run_id):
                verdict = await asyncio.to_thread(load_verdict, self.store, run_id)
                self.recent_verdicts.keep(run_id, verdict)
        return {} if verdict is None else verdict.receipt_fields(appended.attempt)
