"""Checks whether a collector can work now: its database, its threads, its runs and its channels.

Nobody needs a key to ask, and a check of a database that ends no write takes a quarter of a minute. So all requests
share one check: otherwise load balancers that ask every few seconds would occupy all threads that read for others.
"""

from dataclasses import dataclass
from typing import Final

from monitor_server.api.running_collector.collector import Collector
from monitor_server.api.running_collector.shared_check import SharedCheck
from monitor_server.errors import Unavailable

__all__ = ["CollectorHealth", "check_health"]

# `rlvitals doctor` waits for ten seconds, and most load balancers wait for less.
LONGEST_WAIT_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorHealth:
    """Whether batches are stored and projected now.

    Attributes:
        problem: The reason in words if it cannot; None if all is well.
        quarantined: Runs that cannot be processed; their records are stored.
        failing_channels: Channels of notifications that do not get their messages.
    """

    problem: str | None
    quarantined: int
    failing_channels: int = 0


async def check_health(collector: Collector) -> CollectorHealth:
    """Return whether a collector can work; after `LONGEST_WAIT_SECONDS` it cannot, for the reason that is known."""
    shared: SharedCheck[CollectorHealth] = collector.health
    health = await shared.result(lambda: _check(collector), within_seconds=LONGEST_WAIT_SECONDS)
    if health is not None:
        return health
    reason = (shared.newest and shared.newest.problem) or collector.writer.recent_failure
    late = f"the database has not confirmed a write within {LONGEST_WAIT_SECONDS:g} s"
    return CollectorHealth(problem=reason or late, quarantined=0)


def _check(collector: Collector) -> CollectorHealth:
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
    of_projector = None if projector is None else projector.recent_failure
    return collector.writer.recent_failure or of_projector or collector.exhaustion.recent
