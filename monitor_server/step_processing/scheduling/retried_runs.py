"""The runs whose slice has failed: each is tried again in the smallest slices, before it is quarantined."""

from typing import Final

from monitor_server.step_processing.log_entries import RECORDS_PER_SLICE
from monitor_server.step_processing.steps.budget import MAX_STEPS_PER_SLICE

__all__ = ["RetriedRuns"]

# A usual slice has no more steps or records than this.
SMALLEST_SLICES: Final = max(MAX_STEPS_PER_SLICE, RECORDS_PER_SLICE)
# A run beyond it is quarantined at its first failure. If it replaced another one, runs that fail in turn would be tried
# again for ever.
MAX_RUNS: Final = 4_096


class RetriedRuns:
    """The number of smallest slices that remain of each run whose slice has failed."""

    def __init__(self) -> None:
        self._left: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._left)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._left

    def note_success(self, run_id: str, *, has_more: bool) -> None:
        """Note a slice that has succeeded: after the last of the smallest slices, the run goes on as usual."""
        left = self._left.pop(run_id, 0)
        if left > 1 and has_more:
            self._left[run_id] = left - 1

    def note_failure(self, run_id: str) -> bool:
        """Note a slice that has failed; return whether the run is to be tried again, in its smallest slices."""
        if self._left.pop(run_id, None) is not None:
            return False
        if len(self._left) >= MAX_RUNS:
            return False
        self._left[run_id] = SMALLEST_SLICES
        return True
