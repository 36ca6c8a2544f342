"""Builds the projector: rules, detection, the projection of slices, and the metrics of them."""

import uuid
from collections.abc import Callable

from monitor_server.exposition.prometheus import Exposition
from monitor_server.instrumentation.spans import OpenSpan
from monitor_server.rules.evaluation import RuleTracker
from monitor_server.rules.known_rules import KnownRules
from monitor_server.settings import Settings
from monitor_server.step_processing.projector import Projector
from monitor_server.step_processing.slices.projection import Projection
from monitor_server.step_processing.steps.detection import DetectionEngineFactory, Tracker
from monitor_server.store.database import Store
from monitor_server.wiring.notifications import Notifications

__all__ = ["build_projector"]


def build_projector(
    store: Store,
    engine: DetectionEngineFactory,
    *,
    settings: Settings,
    exposition: Exposition,
    clock: Callable[[], float],
    span: OpenSpan,
    is_watched: Callable[[], bool],
    give_way: Callable[[], None],
    notifications: Notifications,
    on_tick: Callable[[], None],
    is_refusing: Callable[[], bool],
) -> Projector:
    """Build the projector; `Projector.start` starts its thread.

    Args:
        store: The store.
        engine: Builds the detectors of each run.
        settings: Of the collector.
        exposition: The metrics, which watch the projector.
        clock: Returns seconds since the epoch.
        span: Opens a span.
        is_watched: Whether a subscriber wants an event for each step.
        give_way: Called after each step, to let ingest go first.
        notifications: Publishes the events of a slice, and writes the notifications that are due.
        on_tick: Called at each tick of the projector's thread.
        is_refusing: Whether batches cannot be stored now.
    """
    known_rules = KnownRules()
    with store.read() as repositories:
        known_rules.refresh(repositories)
    projection = Projection(
        Tracker(engine, rules=RuleTracker(known_rules), on_seconds=exposition.count_detection),
        settings=settings,
        clock=clock,
        is_watched=is_watched,
        give_way=give_way,
        on_left_out=exposition.count_left_out,
        owner=uuid.uuid4().hex if store.is_shared else None,
        record_transitions=notifications.record_transitions,
    )
    projector = Projector(
        store,
        projection,
        settings=settings,
        clock=clock,
        publish=notifications.publish,
        on_tick=on_tick,
        is_refusing=is_refusing,
        span=span,
    )
    exposition.watch_projector(
        queued_runs=lambda: projector.queued_runs,
        waiters=lambda: projector.waiters,
        record_bytes=lambda: projection.waiting_bytes,
    )
    exposition.watch_caches({"runs_with_rules": lambda: known_rules.current.remembered_runs})
    return projector
