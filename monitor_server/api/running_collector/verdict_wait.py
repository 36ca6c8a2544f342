"""Lets an answer wait, for a short time, until detection has processed the data of the request."""

import asyncio
from typing import Final

from monitor_server.step_processing.projector import Projector

__all__ = ["VerdictWait"]

# If more records wait to be projected, a receipt does not wait for its own.
MAX_RECORDS_WAITED_BEHIND: Final = 64


class VerdictWait:
    """Waits for the projector of this process; if another process projects, there is no wait.

    Args:
        projector: None if another process projects.
        seconds: The longest wait; 0 for none.
    """

    def __init__(self, projector: Projector | None, *, seconds: float) -> None:
        self._projector = projector
        self._seconds = seconds

    async def until_projected(self, run_id: str, position: int) -> None:
        """Wait until a run is projected up to a position of its log, or until the longest wait is over."""
        if self._projector is None or not self._seconds:
            return
        waited = asyncio.wrap_future(self._projector.wait_for(run_id, position))
        try:
            await asyncio.wait_for(waited, self._seconds)
        except TimeoutError:
            self._projector.report_late()

    async def until_batch_projected(self, run_id: str, *, begin: int, end: int) -> None:
        """Wait until a batch between two positions of a run's log is projected, if that is likely to be soon."""
        if self._projector is not None and self._projector.is_near(run_id, begin, within=MAX_RECORDS_WAITED_BEHIND):
            await self.until_projected(run_id, end)
