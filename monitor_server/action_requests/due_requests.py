"""Finds the requests to send with the receipt of a batch. There is almost never one, and then this costs nothing."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final

import msgspec

from monitor_server.action_requests.requesting import REQUEST_SECONDS, RequestState, end_request
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from trainer_hooks import wire

__all__ = ["RequestDelivery", "end_requests_of_process", "end_undelivered_requests"]

# The longest delay until a request of another collector is found; a trainer sends every second.
READ_SECONDS: Final = 0.5
WENT_BACK: Final = "the run went back to an earlier step before the trainer received it; ask again"
RESTARTED: Final = "the trainer was started again before it answered, and the new process is not asked"


class RequestDelivery:
    """Finds the requests to send to a trainer.

    Args:
        store: The database.
        clock: Returns seconds since the epoch.
        time: Returns seconds that never go back.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float], time: Callable[[], float] = monotonic) -> None:
        self._store = store
        self._clock = clock
        self._time = time
        self._runs: frozenset[str] = frozenset()
        self._read_at = -READ_SECONDS

    def note(self, run_id: str) -> None:
        """Note a run for which a person has just made a request here."""
        self._runs |= {run_id}

    async def requests(self, run_id: str, attempt: int) -> list[wire.ActionRequest]:
        """Return the requests for the trainer of an attempt that wait for its answer."""
        if self._time() - self._read_at >= READ_SECONDS:
            self._read_at = self._time()  # set before the read, so that concurrent receipts do not read as well
            self._runs = await asyncio.to_thread(self._read_runs)
        if run_id not in self._runs:
            return []
        return await asyncio.to_thread(self._read_requests, run_id, attempt)

    def _read_runs(self) -> frozenset[str]:
        with self._store.read() as repositories:
            return frozenset(repositories.action_requests.open_runs())

    def _read_requests(self, run_id: str, attempt: int) -> list[wire.ActionRequest]:
        now = self._clock()
        with self._store.read() as repositories:
            found = []
            for request in repositories.action_requests.open_of_run(run_id):
                alert = repositories.alerts.find(request.alert_id)
                if alert is None or request.attempt != attempt or request.expires_at <= now:
                    continue
                fields = {name: getattr(alert, name) for name in wire.AlertNotice.__struct_fields__}
                notice = msgspec.convert(fields, wire.AlertNotice)
                # If the clock of one collector is behind, it must not lengthen the time.
                left = min(request.expires_at - now, REQUEST_SECONDS)
                found.append(
                    wire.ActionRequest(
                        id=request.id, action=request.action, by=request.requested_by, alert=notice, seconds_left=left
                    )
                )
            return found


def end_requests_of_process(repositories: Repositories, run_id: str, *, now: float) -> None:
    """End the requests to a process that is gone: they were not meant for its successor."""
    for request in repositories.action_requests.open_of_run(run_id):
        end_request(repositories, request, why=RESTARTED, now=now)


def end_undelivered_requests(repositories: Repositories, run_id: str, *, now: float) -> None:
    """End the requests that no receipt will bring, because their attempt was over before the trainer received them."""
    for request in repositories.action_requests.open_of_run(run_id):
        if request.state == RequestState.REQUESTED:
            end_request(repositories, request, why=WENT_BACK, now=now)
