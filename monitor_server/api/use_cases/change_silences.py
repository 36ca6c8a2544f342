"""A person begins or ends a silence."""

from collections.abc import Callable

from monitor_server.alerts.silencing import AppliedSilences
from monitor_server.api.running_collector.collector import Collector
from monitor_server.store.repositories import Repositories

__all__ = ["change_silences"]


async def change_silences(collector: Collector, key: str, change: Callable[[Repositories], None]) -> None:
    """Change silences in a transaction, and apply them to the firing alerts.

    Args:
        collector: The collector.
        key: The silence, by which the writer orders its work.
        change: Writes the change.

    Raises:
        CollectorError: If ``change`` raises it.
        Unavailable: If it could not be stored.
    """
    silencing = collector.silencing

    def write(repositories: Repositories) -> AppliedSilences:
        change(repositories)
        return silencing.apply(repositories)

    applied = await collector.write(key, write)
    silencing.report(applied)
    while applied.has_more:
        applied = await collector.write(key, silencing.apply)
        silencing.report(applied)
