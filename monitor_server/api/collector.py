"""The parts of one collector, put together: store, writer, broadcast, exposition. Knows no HTTP."""

from collections.abc import Callable
from dataclasses import dataclass

from monitor_server.exposition.prometheus import Exposition
from monitor_server.projection.events import Broadcast
from monitor_server.projection.pipeline import Pipeline
from monitor_server.projection.tracking import Engine, Tracker
from monitor_server.projection.writer import Writer
from monitor_server.settings import Settings
from monitor_server.store.database import Store

__all__ = ["Collector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """What the routes call."""

    settings: Settings
    clock: Callable[[], float]
    store: Store
    writer: Writer
    broadcast: Broadcast
    exposition: Exposition

    @classmethod
    def build(
        cls, settings: Settings, *, exposition: Exposition, clock: Callable[[], float], engine: type[Engine]
    ) -> "Collector":
        """Open the store and put the parts together; `Writer.start` begins.

        Raises:
            StartupError: If the database cannot be used.
        """
        store = Store.open(settings.database_url)
        broadcast = Broadcast(queue_size=settings.stream_queue)
        pipeline = Pipeline(
            Tracker(engine, on_seconds=exposition.detected),
            settings=settings,
            clock=clock,
            is_watched=lambda: broadcast.wanted,
        )
        writer = Writer(
            store,
            pipeline,
            publish=broadcast.publish,
            max_waiting=settings.max_waiting_batches,
            tick_seconds=settings.tick_seconds,
        )
        exposition.watch(store, settings=settings, clock=clock)
        return cls(
            settings=settings, clock=clock, store=store, writer=writer, broadcast=broadcast, exposition=exposition
        )
