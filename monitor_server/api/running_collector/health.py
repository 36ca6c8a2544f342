"""Checks whether a collector can work now: its database, its threads, its runs and its channels."""

from dataclasses import dataclass

from monitor_server.api.running_collector.collector import Collector
from monitor_server.errors import Unavailable

__all__ = ["CollectorHealth", "check_health"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorHealth:
    """Whether batches are stored and projected now.

    Attributes:
        problem: The reason in words if it cannot; None if all is well.
        quarantined: Runs that cannot be processed; their records are stored.
        failing_channels: Channels of notifications that do not accept their messages.
    """

    problem: str | None
    quarantined: int
    failing_channels: int = 0


def check_health(collector: Collector) -> CollectorHealth:
    """Write to the database, read from it, and look at the threads."""
    try:
        collector.store.probe()
        with collector.store.read() as repositories:
            quarantined = len(repositories.projection_queue.quarantined_runs())
            failing = len(collector.failing_channels(repositories))
    except Unavailable as error:
        return CollectorHealth(problem=str(error), quarantined=0)
    return CollectorHealth(problem=_problem(collector), quarantined=quarantined, failing_channels=failing)


def _problem(collector: Collector) -> str | None:
    if not collector.writer.is_alive:
        return "the writer has ended; restart the collector"
    projector = collector.projector
    if projector is not None and not projector.is_alive:
        return "the projector has ended or hangs; restart the collector"
    return collector.writer.recent_failure or (None if projector is None else projector.recent_failure)
