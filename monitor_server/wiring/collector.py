"""Builds a collector from its settings, by its role."""

from collections.abc import Callable

from monitor_server.access.keys.known_keys import KnownKeys
from monitor_server.access.oidc.sign_in import OidcSignIn
from monitor_server.action_links.lookup import LinkLookup
from monitor_server.action_links.signing import LinkSecrets
from monitor_server.action_requests.due_requests import RequestDelivery
from monitor_server.action_requests.outcomes import RequestOutcomes
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
from monitor_server.ingest.writer import Writer
from monitor_server.instrumentation.spans import OpenSpan
from monitor_server.notifications.configuration.current import CurrentFile
from monitor_server.notifications.configuration.networks import Networks
from monitor_server.notifications.configuration.stored import SavedDocument
from monitor_server.retention.limits import log_unused_limits
from monitor_server.retention.policy import RetentionPolicy
from monitor_server.retention.worker import RetentionWorker
from monitor_server.rules.administration.rule_file import AppliedFile
from monitor_server.settings import Settings
from monitor_server.steady_clock import SteadyClock
from monitor_server.step_processing.scheduling.priority import IngestPriority
from monitor_server.step_processing.steps.detection import DetectionEngineFactory
from monitor_server.store.database import Store
from monitor_server.store.repositories.retention.deletion import REMOVED_FROM
from monitor_server.wiring.metrics import watch_collector
from monitor_server.wiring.notifications import alert_events, build_notifications
from monitor_server.wiring.projector import build_projector

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
    notifications = build_notifications(
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
        on_changed=lambda applied: publish(alert_events(applied.changed, applied.open_kinds)),
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

    built = build_projector(
        store,
        engine,
        settings=settings,
        exposition=exposition,
        clock=clock,
        span=span,
        is_watched=lambda: relay.is_watched,
        give_way=IngestPriority(activity.wait_until_idle).give_way,
        notifications=notifications,
        on_tick=tick,
        is_refusing=lambda: writer.recent_failure is not None,
    )
    projector = built if is_projecting else None
    log = LogAppender(settings=settings, clock=clock, first_signals=READ_SIGNALS)
    writer = Writer(
        store,
        max_waiting=settings.max_waiting_batches,
        max_waiting_bytes=settings.max_waiting_bytes,
        before_commit=log.flush,
        on_commit=projector.notify_batches if projector is not None else lambda _: None,
        on_failure=log.forget,
    )
    deliveries = Deliveries()
    steady = clock if isinstance(clock, SteadyClock) else None
    with store.read() as repositories:
        log_unused_limits(repositories)
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
    verdict_wait = VerdictWait(projector, seconds=settings.verdict_wait_seconds)
    collector = Collector(
        settings=settings,
        clock=clock,
        store=store,
        log=log,
        writer=writer,
        appender=BatchAppender(writer, log, deliveries=deliveries, span=span),
        deliveries=deliveries,
        activity=activity,
        projector=projector,
        verdict_wait=verdict_wait,
        requests=requests,
        receipts=Receipts(
            store,
            projector=projector,
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
    watch_collector(collector)
    return collector
