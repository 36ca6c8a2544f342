"""The receipt of a batch: the results of its records, the newest verdict on its run, and requests to its trainer."""

import asyncio
from collections.abc import Callable
from typing import Any

from monitor_server.action_requests.due_requests import RequestDelivery
from monitor_server.alerts.verdict import RecentVerdicts, load_verdict
from monitor_server.api.running_collector.verdict_wait import VerdictWait
from monitor_server.ingest.record_log.log_append import Appended
from monitor_server.step_processing.projector import Projector
from monitor_server.store.database import Store
from trainer_hooks import wire

__all__ = ["Receipts"]


class Receipts:
    """Makes the receipts of one collector.

    Args:
        store: Has the verdicts on runs that another process projects.
        projector: Has the verdicts on runs that this process projects; None if another process projects.
        requests: Finds the requests to trainers.
        verdict_wait: Waits for the verdict on the batch itself.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        store: Store,
        *,
        projector: Projector | None,
        requests: RequestDelivery,
        verdict_wait: VerdictWait,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._projector = projector
        self._requests = requests
        self._verdict_wait = verdict_wait
        self._clock = clock
        self.recent_verdicts = RecentVerdicts()

    async def make(self, appended: Appended) -> wire.Receipt:
        """Return the receipt of a batch that was appended.

        It has the newest known verdict. If the batch is projected in this process within ``verdict_wait_seconds``, this
        is the verdict on the batch itself.
        """
        await self._verdict_wait.until_batch_projected(
            appended.run_id, begin=appended.log_end - appended.accepted, end=appended.log_end
        )
        return wire.Receipt(
            run_id=appended.run_id,
            accepted=appended.accepted,
            duplicates=appended.duplicates,
            refused_responses=appended.refused_responses,
            newest_attempt=appended.newest_attempt if appended.attempt < appended.newest_attempt else None,
            rejected=list(appended.rejected),
            requests=await self._requests.requests(appended.run_id, appended.attempt),
            left_out=appended.left_out,
            **(await self._verdict_fields(appended)),
        )

    async def _verdict_fields(self, appended: Appended) -> dict[str, Any]:
        run_id = appended.run_id
        verdict = None if self._projector is None else self._projector.known_verdict(run_id)
        if verdict is None:
            verdict = self.recent_verdicts.find(run_id)
            if not self.recent_verdicts.is_recent(run_id):
                verdict = await asyncio.to_thread(load_verdict, self._store, run_id, now=self._clock())
                self.recent_verdicts.keep(run_id, verdict)
        return {} if verdict is None else verdict.receipt_fields(appended.attempt)
