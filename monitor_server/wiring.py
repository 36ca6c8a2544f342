"""Connects the parts of one collector: store, log, projection, notifications, retention and others."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from monitor_server.access.keys.known_keys import KnownKeys
from monitor_server.access.oidc.sign_in import OidcSignIn
from monitor_server.action_links.issuing import LinkIssuer
from monitor_server.action_links.lookup import LinkLookup
from monitor_server.action_links.signing import LinkSecrets
from monitor_server.action_requests.due_requests import RequestDelivery
from monitor_server.action_requests.outcomes import RequestOutcomes
from monitor_server.alerts.changes.transitions import RecordTransitions, record_no_transitions
from monitor_server.alerts.silencing import Silencing
from monitor_server.api.live_events.broadcast import Broadcast
from monitor_server.api.live_events.relay import Relay
from monitor_server.api.running_collector.collector import Collector
from monitor_server.api.running_collector.receipts import Receipts
from monitor_server.api.running_collector.verdict_wait import VerdictWait
from monitor_server.detection.calibration import Calibration
from monitor_server.detection.registry import READ_SIGNALS
from monitor_server.exposition.prometheus import Exposition
from monitor_server.ingest.activity import Activity
from monitor_server.ingest.appending import BatchAppender
from monitor_server.ingest.deliveries import Deliveries
from monitor_server.ingest.record_log.log_append import LogAppender
from monitor_server.ingest.validation.records import record_caches
from monitor_server.ingest.writer import Writer
from monitor_server.instrumentation.spans import OpenSpan
from monitor_server.notifications.configuration.current import CurrentFile
from monitor_server.notifications.configuration.networks import Networks
from monitor_server.notifications.configuration.stored import EMPTY, SavedDocument
from monitor_server.notifications.configuration.tables import NotificationFile
from monitor_server.notifications.routing import Router
from monitor_server.notifications.worker import NotificationWorker
from monitor_server.retention.policy import RetentionPolicy
from monitor_server.retention.worker import RetentionWorker
from monitor_server.rules.administration.rule_file import AppliedFile
from monitor_server.rules.evaluation import RuleTracker
from monitor_server.rules.known_rules import KnownRules
from monitor_server.settings import Settings
from monitor_server.steady_clock import SteadyClock
from monitor_server.step_processing.events import AlertChanged, Event
from monitor_server.step_processing.projector import Projector
from monitor_server.step_processing.scheduling.priority import IngestPriority
from monitor_server.step_processing.slices import Projection
from monitor_server.step_processing.steps.detection import DetectionEngineFactory, Tracker
from monitor_server.store.database import Store
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.retention.deletion import REMOVED_FROM
from monitor_server.store.repositories.runs import Run

__all__ = ["build_collector"]


def build_collector(
    settings: Settings,
    *,
    exposition: Exposition,
    clock: Callable[[], float] | None,
    engine: DetectionEngineFactory,
    calibration: Calibration,
    file: CurrentFile | None,
    networks: Networks,
    span: OpenSpan,
) -> Collector:
    """Open the database and build the parts of a collector by its role; `Collector.start` starts their threads.

    Args:
        settings: Of the collector.
        exposition: The metrics, which receive the parts to watch.
        clock: Returns seconds since the epoch; if None, a clock that no jump of the machine's clock moves.
        engine: Builds the detectors of each run.
        calibration: The calibration of the detectors.
        file: The file of channels and routes; None if the settings name no file, so that the saved ones apply.
        networks: The networks that saved channels may connect to.
        span: Opens a span.

    Raises:
        StartupError: If the database, or the file of rules, cannot be used.
    """
    store = Store.open(settings.database_url)
    clock = SteadyClock.of(store) if clock is None else clock
    max_streams = max(1, min(settings.max_streams, settings.max_connections // 2))
    broadcast = Broadcast(
        queue_size=settings.stream_queue,
        max_subscriptions=max_streams,
        max_per_client=settings.max_streams_per_client,
    )
    relay = Relay(broadcast, open_channel=store.open_notifications, on_relayed=exposition.count_relayed)
    activity = Activity()
    is_projecting = settings.role in {"all", "projector"}
    link_secrets = LinkSecrets(settings.link_secret_file)
    channels = None if settings.role == "ingest" else file or SavedDocument(store, networks)
    notifications = _build_notifications(
        store,
        channels if is_projecting else None,
        relay,
        settings=settings,
        link_secrets=link_secrets,
        exposition=exposition,
        clock=clock,
        span=span,
    )
    notifier, publish = notifications.worker, notifications.publish
    silencing = Silencing(
        store,
        clock=clock,
        on_changed=lambda applied: publish(_alert_events(applied.changed, applied.open_kinds)),
        releases=notifier is not None,
        record_transitions=notifications.record_transitions,
    )

    rule_file = None
    if settings.rules_file is not None and is_projecting:
        rule_file = AppliedFile(settings.rules_file, store, clock=clock)

    outcomes = RequestOutcomes(store, clock=clock, deadlines=settings.deadlines)

    def tick() -> None:
        silencing.tick()
        outcomes.tick()
        if rule_file is not None:
            rule_file.tick()
        if isinstance(clock, SteadyClock):
            clock.report_jump()

    known_rules = KnownRules()
    with store.read() as repositories:
        known_rules.refresh(repositories)
    projection = Projection(
        Tracker(engine, rules=RuleTracker(known_rules), on_seconds=exposition.count_detection),
        settings=settings,
        clock=clock,
        is_watched=lambda: relay.is_watched,
        give_way=IngestPriority(activity.wait_until_idle).give_way,
        on_left_out=exposition.count_left_out,
        owner=uuid.uuid4().hex if store.is_shared else None,
        record_transitions=notifications.record_transitions,
    )
    projector = Projector(
        store,
        projection,
        settings=settings,
        clock=clock,
        publish=publish,
        on_tick=tick,
        span=span,
    )
    log = LogAppender(settings=settings, clock=clock, first_signals=READ_SIGNALS)
    writer = Writer(
        store,
        max_waiting=settings.max_waiting_batches,
        max_waiting_bytes=settings.max_waiting_bytes,
        before_commit=log.flush,
        on_commit=projector.notify_batches if is_projecting else lambda _: None,
        on_failure=log.forget,
    )
    deliveries = Deliveries()
    steady = clock if isinstance(clock, SteadyClock) else None
    policy = RetentionPolicy(
        settings, clock=clock, may_be_ahead=(lambda: False) if steady is None else steady.may_be_ahead
    )
    retention = RetentionWorker(
        store,
        policy,
        interval_seconds=settings.retention_seconds,
        on_removed=lambda removed: exposition.count_removed(removed.table, removed.rows),
    )
    exposition.watch_removals(REMOVED_FROM if is_projecting else ())
    keys = KnownKeys(store, clock=clock, on_changed=broadcast.recheck)
    keys.read()
    requests = RequestDelivery(store, clock=clock)
    verdict_wait = VerdictWait(projector if is_projecting else None, seconds=settings.verdict_wait_seconds)
    collector = Collector(
        settings=settings,
        clock=clock,
        store=store,
        log=log,
        writer=writer,
        appender=BatchAppender(writer, log, deliveries=deliveries, span=span),
        deliveries=deliveries,
        activity=activity,
        projector=projector if is_projecting else None,
        verdict_wait=verdict_wait,
        requests=requests,
        receipts=Receipts(
            store,
            projector=projector if is_projecting else None,
            requests=requests,
            verdict_wait=verdict_wait,
            clock=clock,
        ),
        retention=retention if is_projecting else None,
        broadcast=broadcast,
        relay=relay,
        exposition=exposition,
        keys=keys,
        silencing=silencing,
        link_secrets=link_secrets,
        links=LinkLookup(store, link_secrets, clock=clock),
        calibration=calibration,
        notifier=notifier,
        notifications=channels,
        rule_file=rule_file,
        oidc=None if settings.role not in {"all", "web"} else OidcSignIn.of(settings, clock=clock),
    )
    _watch(collector)
    exposition.watch_projector(
        queued_runs=lambda: projector.queued_runs,
        waiters=lambda: projector.waiters,
        record_bytes=lambda: projection.waiting_bytes,
    )
    exposition.watch_caches({"runs_with_rules": lambda: known_rules.current.remembered_runs})
    return collector


@dataclass(frozen=True, slots=True, kw_only=True)
class _Notifications:
    """How people and readers learn of changes: the delivery, if this process has one, and what leads to it."""

    worker: NotificationWorker | None
    publish: Callable[[Sequence[Event]], None]
    record_transitions: RecordTransitions


def _build_notifications(
    store: Store,
    channels: CurrentFile | SavedDocument | None,
    relay: Relay,
    *,
    settings: Settings,
    link_secrets: LinkSecrets,
    exposition: Exposition,
    clock: Callable[[], float],
    span: OpenSpan,
) -> _Notifications:
    """Build the delivery of notifications; without channels, only what publishes events after a commit."""
    if channels is None:
        return _Notifications(worker=None, publish=relay.publish, record_transitions=record_no_transitions)

    def publish(events: Sequence[Event]) -> None:
        relay.publish(events)
        if any(isinstance(event, AlertChanged) for event in events):
            worker.notify()

    worker = NotificationWorker(
        store,
        lambda: channels.file,
        refresh=channels.refresh,
        former=channels.former,
        is_newest=lambda: channels.is_newest,
        networks=channels.networks,
        public_url=settings.link_url,
        links=LinkIssuer(link_secrets, public_url=settings.link_url, seconds=settings.link_minutes * 60.0),
        clock=clock,
        on_result=exposition.count_delivery,
        on_alerts=lambda changed: publish(_alert_events(changed, {})),  # they have no numbers of a trainer
        span=span,
    )
    return _Notifications(worker=worker, publish=publish, record_transitions=Router(channels.of).record)


def _watch(collector: Collector) -> None:
    """Have the metrics read the parts of a collector at each scrape."""
    exposition, writer, broadcast = collector.exposition, collector.writer, collector.broadcast
    exposition.watch(collector.store, settings=collector.settings, clock=collector.clock)
    exposition.watch_notifications(
        collector.store,
        file=lambda: _file_in_force(collector.notifications),
        failing=collector.failing_channels,
        clock=collector.clock,
    )
    exposition.watch_writer(batches=lambda: writer.waiting, waiting_bytes=lambda: writer.waiting_bytes)
    exposition.watch_caches(
        {
            **record_caches(collector.settings),
            **collector.log.caches,
            **(collector.projector.caches if collector.projector is not None else {}),
            **(collector.oidc.caches if collector.oidc is not None else {}),
            **collector.relay.caches,
            **(collector.notifier.caches if collector.notifier is not None else {}),
            "waiting_writes": lambda: collector.store.waiting_writes,
            "recent_verdicts": lambda: len(collector.receipts.recent_verdicts),
            "link_addresses": lambda: collector.links.counted_addresses,
            "view_callers": lambda: len(collector.shown_views),
            "streams": lambda: broadcast.subscriptions,
            "stream_events": lambda: broadcast.queued_events,
            "published_events": lambda: broadcast.published_events,
        }
    )
    exposition.watch_requests(
        {
            "read": lambda: collector.waiting_reads.count,
            "export": lambda: collector.exports.count,
            "incident_report": lambda: collector.incident_reports.count,
            "dry_run": lambda: collector.dry_runs.count,
            "large_batch": lambda: collector.large_batches.waiting,
        }
    )


def _file_in_force(channels: CurrentFile | SavedDocument | None) -> NotificationFile:
    if isinstance(channels, SavedDocument):
        channels.refresh()  # a process that does not notify has no thread for this
    return EMPTY if channels is None else channels.file


def _alert_events(changed: Sequence[tuple[Run, Alert]], open_kinds: Mapping[str, tuple[str, ...]]) -> list[Event]:
    """Return the events of changed alerts, with the kinds that fire on their runs by the run's id."""
    return [
        AlertChanged(
            run_id=run.id, run=run.name, project=run.project, alert=alert, open_kinds=open_kinds.get(run.id, ())
        )
        for run, alert in changed
    ]
