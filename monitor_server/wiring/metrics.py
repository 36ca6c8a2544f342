"""Has the metrics read the parts of a collector at each scrape."""

from monitor_server.api.running_collector.collector import Collector
from monitor_server.ingest.validation.records import record_caches
from monitor_server.notifications.configuration.current import CurrentFile
from monitor_server.notifications.configuration.stored import EMPTY, SavedDocument
from monitor_server.notifications.configuration.tables import NotificationFile

__all__ = ["watch_collector"]


def watch_collector(collector: Collector) -> None:
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
