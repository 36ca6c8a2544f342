"""Compacts the steps of a run into chunks of signals every few hundred steps."""

from dataclasses import dataclass
from typing import Final

from monitor_server.step_processing.run_context import RunContext

__all__ = ["CompactedRuns"]

MAX_CACHED_RUNS: Final = 512
COMPACTION_STEPS: Final = 256


@dataclass(slots=True)
class _Search:
    """The steps that a run has completed after those of its last search, and the first step of the last chunk."""

    completed: int
    first_step: int = -1


class CompactedRuns:
    """When each run of this projector was last compacted."""

    def __init__(self) -> None:
        self._searches: dict[str, _Search] = {}

    def __len__(self) -> int:
        return len(self._searches)

    def compact(self, context: RunContext) -> None:
        """Encode a chunk if one is due, of steps before this slice, to be written with the slice.

        If a chunk was due, the next slice searches again, so that a run with many steps to compact catches up.
        """
        run = context.run
        if run.last_step is None:
            return
        search = self._searches.get(run.id)
        if search is None:
            if len(self._searches) >= MAX_CACHED_RUNS:
                self._searches.clear()
            search = self._searches[run.id] = _Search(completed=COMPACTION_STEPS)
        search.completed += len(context.completed)
        if search.completed < COMPACTION_STEPS:
            return
        chunk = context.repositories.compaction.next_chunk(run.id, newest_step=run.last_step)
        if chunk is not None:
            context.defer(lambda repositories: repositories.compaction.add(run.id, chunk))
        # A chunk that was written before may be removed by late steps again and again.
        if chunk is None or chunk.first_step <= search.first_step:
            search.completed = len(context.completed)  # this search has not seen them
        search.first_step = -1 if chunk is None else chunk.first_step
