"""Builds the delivery of notifications, and what leads to it: events after a commit, and transitions within one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from monitor_server.action_links.issuing import LinkIssuer
from monitor_server.action_links.signing import LinkSecrets
from monitor_server.alerts.changes.transitions import RecordTransitions, record_no_transitions
from monitor_server.api.live_events.relay import Relay
from monitor_server.exposition.prometheus import Exposition
from monitor_server.instrumentation.spans import OpenSpan
from monitor_server.notifications.configuration.current import CurrentFile
from monitor_server.notifications.configuration.stored import SavedDocument
from monitor_server.notifications.routing import Router
from monitor_server.notifications.worker import NotificationWorker
from monitor_server.settings import Settings
from monitor_server.step_processing.events import AlertChanged, Event
from monitor_server.store.database import Store
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.runs import Run

__all__ = ["Notifications", "alert_events", "build_notifications"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifications:
    """How people and readers learn of changes: the delivery, if this process has one, and what leads to it."""

    worker: NotificationWorker | None
    publish: Callable[[Sequence[Event]], None]
    record_transitions: RecordTransitions


def build_notifications(
    store: Store,
    channels: CurrentFile | SavedDocument | None,
    relay: Relay,
    *,
    settings: Settings,
    link_secrets: LinkSecrets,
    exposition: Exposition,
    clock: Callable[[], float],
    span: OpenSpan,
) -> Notifications:
    """Build the delivery of notifications; without channels, only what publishes events after a commit."""
    if channels is None:
        return Notifications(worker=None, publish=relay.publish, record_transitions=record_no_transitions)

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
        on_alerts=lambda changed: publish(alert_events(changed, {})),  # they have no numbers of a trainer
        span=span,
    )
    return Notifications(worker=worker, publish=publish, record_transitions=Router(channels.of).record)


def alert_events(changed: Sequence[tuple[Run, Alert]], open_kinds: Mapping[str, tuple[str, ...]]) -> list[Event]:
    """Return the events of changed alerts, with the kinds that fire on their runs by the run's id."""
    return [
        AlertChanged(
            run_id=run.id, run=run.name, project=run.project, alert=alert, open_kinds=open_kinds.get(run.id, ())
        )
        for run, alert in changed
    ]
