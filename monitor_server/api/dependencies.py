"""The dependencies of routes: the collector of the application, a read transaction, and the caller."""

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

from fastapi import Depends, Request

from monitor_server.access.callers import Caller
from monitor_server.access.enforcement import CALLER
from monitor_server.api.running_collector.collector import Collector
from monitor_server.errors import UnknownAlert, UnknownRun
from monitor_server.store.repositories import Repositories

__all__ = [
    "Asking",
    "Collector",
    "DryRunReading",
    "Reading",
    "Serving",
    "client_address",
    "require_alert",
    "require_run",
]


async def _collector(request: Request) -> Collector:
    collector: Collector = request.app.state.collector
    return collector


Serving = Annotated[Collector, Depends(_collector)]


async def _caller(request: Request) -> Caller:
    caller: Caller = request.scope[CALLER]  # `access.enforcement` has stored it there
    return caller


Asking = Annotated[Caller, Depends(_caller)]

READS = 4


async def _admit(collector: Serving, asking: Asking) -> AsyncIterator[None]:
    with collector.waiting_reads.admit(asking.counted_as):
        yield


# `_reading` depends on this, so the request is admitted before it waits for its turn.
Admitted = Annotated[None, Depends(_admit, scope="function")]


def _reading(collector: Serving, _admitted: Admitted) -> Iterator[Repositories]:
    with collector.store.read() as repositories:
        yield repositories


# A read holds a connection of the store while it waits for a thread. With more reads at once than connections, threads
# would wait for connections that wait for threads. The transaction ends before the answer is sent, because a client may
# stop reading it.
Reading = Annotated[Repositories, Depends(_reading, scope="function", max_concurrency=READS)]


async def _only_dry_run(collector: Serving) -> AsyncIterator[None]:
    with collector.dry_runs.admit():
        yield


OnlyDryRun = Annotated[None, Depends(_only_dry_run, scope="function")]


def _dry_run_reading(collector: Serving, _only: OnlyDryRun) -> Iterator[Repositories]:
    with collector.store.read() as repositories:
        yield repositories


# A dry run may take seconds, so it has its own connection and thread, separate from those of the other reads.
DryRunReading = Annotated[Repositories, Depends(_dry_run_reading, scope="function", max_concurrency=1)]


def client_address(request: Request) -> str:
    """Return the address of a request's client; it is empty if the server knows none."""
    return "" if request.client is None else request.client.host


def require_run(reading: Repositories, run_id: str) -> None:
    """Raise `UnknownRun` unless a run has this id."""
    if not reading.runs.exists(run_id):
        raise UnknownRun.by_id(run_id)


def require_alert(reading: Repositories, alert_id: str) -> dict[str, Any]:
    """Return an alert in the form of lists; raise `UnknownAlert` unless an alert has this id."""
    row = reading.alerts.view(alert_id)
    if row is None:
        raise UnknownAlert.by_id(alert_id)
    return row
