"""What routes depend on: the collector behind the application and a read transaction."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from monitor_server.api.broadcast import Broadcast
from monitor_server.errors import UnknownRun
from monitor_server.exposition.prometheus import Exposition
from monitor_server.projection.writer import Writer
from monitor_server.settings import Settings
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories

__all__ = ["Collector", "Reading", "Serving", "require_run", "unknown_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """The parts of one collector that routes call; `monitor_server.app` puts them together."""

    settings: Settings
    clock: Callable[[], float]
    store: Store
    writer: Writer
    broadcast: Broadcast
    exposition: Exposition


def unknown_run(run_id: str) -> UnknownRun:
    """Return the error for an id that no run has."""
    return UnknownRun(f"no run has the id {run_id!r}; GET /api/v1/runs lists them")


def _collector(request: Request) -> Collector:
    collector: Collector = request.app.state.collector
    return collector


Serving = Annotated[Collector, Depends(_collector)]


def _reading(collector: Serving) -> Iterator[Repositories]:
    with collector.store.read() as repositories:
        yield repositories


Reading = Annotated[Repositories, Depends(_reading)]


def require_run(reading: Repositories, run_id: str) -> None:
    """Raise `UnknownRun` unless a run has this id."""
    if not reading.runs.exists(run_id):
        raise unknown_run(run_id)
