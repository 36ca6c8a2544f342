"""Compacts the steps of a run into chunks of signals every few hundred steps."""

from typing import Final

from monitor_server.step_processing.run_context import RunContext

__all__ = ["CompactedRuns"]

MAX_CACHED_RUNS: Final = 512
# This is less than the steps of a chunk, so that a run with many steps to compact catches up.
COMPACTION_STEPS: Final = 256


class CompactedRuns:
    """The newest step at which each run of this projector was last compacted."""

    def __init__(self) -> None:
        self._compacted: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._compacted)

    def compact(self, context: RunContext) -> None:
        """Encode a chunk if one is due, of steps before this slice, to be written with the slice."""
        run = context.run
        newest = run.last_step
        if newest is None or self._compacted.get(run.id) == newest // COMPACTION_STEPS:
            return
        if len(self._compacted) >= MAX_CACHED_RUNS:
            self._compacted.clear()
        self._compacted[run.id] = newest // COMPACTION_STEPS
        chunk = context.repositories.compaction.next_chunk(run.id, newest_step=newest)
        if chunk is not None:
            context.defer(lambda repositories: repositories.compaction.add(run.id, chunk))
