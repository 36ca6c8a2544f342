"""A person resets a run, or deletes runs."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from monitor_server.access.audit.entries import record_change
from monitor_server.access.callers import Caller
from monitor_server.api.running_collector.collector import Collector
from monitor_server.errors import InvalidField
from monitor_server.ingest.reset import reset_run
from monitor_server.step_processing.events import RunChanged, RunDeleted
from monitor_server.store.repositories import Repositories

__all__ = ["delete_runs", "reset_stored_run"]


async def reset_stored_run(
    collector: Collector, run_id: str, *, author: Caller, attempt: int | None = None, world_size: int | None = None
) -> None:
    """Reset a run's newest attempt or the number of its ranks, and try it again if it is quarantined.

    An event follows, because an open page still shows the removed steps.

    Raises:
        UnknownRun: If there is no such run.
        InvalidField: If the run has no such attempt, or the settings do not allow the world size.
        Unavailable: If it could not be stored.
    """
    now, most = collector.clock(), collector.settings.max_world_size
    if world_size is not None and not 1 <= world_size <= most:
        raise InvalidField(f"world_size must lie in 1 to {most} (RLVITALS_MAX_WORLD_SIZE), got {world_size}")

    def write(repositories: Repositories) -> int:
        position = reset_run(repositories, run_id, attempt=attempt, world_size=world_size, now=now)
        project = repositories.runs.project(run_id)
        given = {"attempt": attempt, "world size": world_size}
        asked = [f"{name} {value}" for name, value in given.items() if value is not None]
        detail = ", ".join(asked) or "tried again, where it was quarantined"
        record_change(repositories, author, "run.reset", run_id, now=now, project=project, detail=detail)
        return position

    position = await collector.write(run_id, write)
    if collector.retention is not None:
        collector.retention.notify()
    await collector.verdict_wait.until_projected(run_id, position)
    if (row := await asyncio.to_thread(_view, collector, run_id)) is not None:
        collector.relay.publish([RunChanged(run_id=run_id, view=row)])


def _view(collector: Collector, run_id: str) -> Mapping[str, Any] | None:
    with collector.store.read() as reading:
        return reading.run_views.find(run_id, now=collector.clock(), deadlines=collector.settings.deadlines)


async def delete_runs(
    collector: Collector, key: str, begin: Callable[[Repositories], tuple[str | None, list[str]]]
) -> list[str]:
    """Begin to delete runs, inform the subscribers, and return the ids.

    Args:
        collector: The collector of the runs.
        key: The run or the project, by which the writer orders its work.
        begin: Begins the deletion in a transaction, and returns the project of the runs and their ids.

    Raises:
        CollectorError: If ``begin`` raises it.
        Unavailable: If it could not be stored.
    """
    project, deleted = await collector.write(key, begin)
    collector.relay.publish([RunDeleted(run_id=run_id, project=project) for run_id in deleted])
    if collector.retention is not None:
        collector.retention.notify()
    return deleted
