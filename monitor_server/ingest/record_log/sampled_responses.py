"""Appends the sampled responses of a batch, and removes some responses of old steps."""

from collections.abc import Sequence

from monitor_server.ingest.validation.records import ValidRecord
from monitor_server.settings import Settings
from monitor_server.store.repositories import Repositories
from trainer_hooks import wire

__all__ = ["SampledResponseLog"]

MAX_CACHED_RUNS = 65_536  # some 200 bytes each; all are dropped at once, and thinned again at their next batch
# A batch removes at most this many old responses plus twice the number that it brings, so that their number falls.
THINNED_AT_ONCE = 250
THINNING_INTERVAL_STEPS = 32  # thinning after each step would cost more than the few responses that wait


class SampledResponseLog:
    """Appends sampled responses. It keeps in memory the step at which each run was last thinned."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._thinned: dict[str, int] = {}

    @property
    def thinned_runs(self) -> int:
        """The number of runs that it keeps in memory, at most `MAX_CACHED_RUNS`."""
        return len(self._thinned)

    def append(self, repositories: Repositories, run_id: str, batch: wire.Batch, records: Sequence[ValidRecord]) -> int:
        """Store the sampled responses of new records, thin old ones, and return how many were refused."""
        refused = sum(record.refused_responses for record in records)
        with_responses = [record for record in records if record.responses]
        for record in with_responses:
            refused += repositories.responses.add(
                run_id,
                attempt=batch.attempt,
                step=record.step,
                rank=batch.rank,
                new=record.responses,
                max_per_step=self._settings.max_responses,
            )
        if with_responses:
            added = sum(len(record.responses) for record in with_responses)
            self._thin(repositories, run_id, limit=THINNED_AT_ONCE + 2 * added)
        return refused

    def _thin(self, repositories: Repositories, run_id: str, *, limit: int) -> None:
        """Thin old responses at intervals, by the step that detection has reached: a trainer may send any step number.

        If more than ``limit`` responses are to be removed, the next batches remove the rest.
        """
        newest = repositories.runs.last_step(run_id)
        block = -1 if newest is None else newest // THINNING_INTERVAL_STEPS
        if newest is None or block == self._thinned.get(run_id, -1):
            return
        if len(self._thinned) >= MAX_CACHED_RUNS:
            self._thinned.clear()
        whole_steps = self._settings.response_steps
        removed = repositories.responses.thin(run_id, newest_step=newest, whole_steps=whole_steps, limit=limit)
        if removed < limit:
            self._thinned[run_id] = block
