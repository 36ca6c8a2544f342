"""Keeps the state of each run after its newest batch in memory, so that the next batch needs no reading.

It holds while the end of the run's log is where it was: every change that another collector, a person or an operator
makes to what is kept here takes a position in the log.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from monitor_server.ingest.validation.validate import ValidBatch
from monitor_server.store.repositories.runs import Run

__all__ = ["KnownRun", "KnownRuns"]

MAX_RUNS = 1_024  # some 10 KB each, and 100 bytes a rank


@dataclass(slots=True)
class KnownRun:
    """A run after its last batch.

    Attributes:
        run: The run; only the columns of ingest are as they are in the store.
        attempt_world_size: The largest world size of the newest attempt.
        signals: The names of its signals.
        last_seqs: The highest sequence number of each rank in the newest attempt.
        names: The signals of the last record, all of them known.
    """

    run: Run
    attempt_world_size: int
    signals: set[str]
    last_seqs: dict[int, int] = field(default_factory=dict)
    names: Sequence[str] = ()

    def is_next(self, valid: ValidBatch) -> bool:
        """Whether a batch only continues the newest attempt: records that are new, and nothing else."""
        batch, run = valid.batch, self.run
        if (
            batch.attempt != run.attempt
            or run.ended is not None
            or batch.end is not None
            or batch.config is not None
            or batch.world_size > self.attempt_world_size
            or batch.capability != run.capability
            or (batch.source and batch.source != run.source)
        ):
            return False
        last = self.last_seqs.get(batch.rank)
        if last is None:
            return False
        for record in valid.records:
            if record.seq <= last or not self._knows(record.names):
                return False
            last = record.seq
        return True

    def _knows(self, names: Sequence[str]) -> bool:
        if names == self.names:
            return True
        if not self.signals.issuperset(names):
            return False
        self.names = names
        return True


class KnownRuns:
    """The runs of the last batches, the longest unheard of dropped first."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, KnownRun] = OrderedDict()

    def __len__(self) -> int:
        return len(self._runs)

    def find(self, run_id: str) -> KnownRun | None:
        """Return what is known of a run, or None."""
        known = self._runs.get(run_id)
        if known is not None:
            self._runs.move_to_end(run_id)
        return known

    def keep(self, known: KnownRun) -> None:
        """Keep what is known of a run."""
        self._runs[known.run.id] = known
        self._runs.move_to_end(known.run.id)
        if len(self._runs) > MAX_RUNS:
            self._runs.popitem(last=False)

    def forget(self, run_id: str | None = None) -> None:
        """Drop a run, or all runs, because the store did not accept what is kept here."""
        if run_id is None:
            self._runs.clear()
        else:
            self._runs.pop(run_id, None)
