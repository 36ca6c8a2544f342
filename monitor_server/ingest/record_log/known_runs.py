"""Keeps the state of each run after its newest batch in memory, so that the next batch needs no reading.

The state is valid while the end of the run's log has not moved. Every change of this state by another collector, a
person or an operator takes a position in the log.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from monitor_server.detection.protocol import SEEN_SHARE
from monitor_server.ingest.record_log.signal_limit import LeftOutCounter, SignalLimit, without
from monitor_server.ingest.validation.records import ValidRecord
from monitor_server.ingest.validation.validate import ValidBatch
from monitor_server.store.repositories.runs import Run
from trainer_hooks import wire

__all__ = ["KnownRun", "KnownRuns"]

MAX_RUNS = 1_024  # some 10 KB each, and 100 bytes a rank
MAX_RANKS = 1_000_000  # of all runs together


@dataclass(slots=True)
class KnownRun:
    """A run after its last batch.

    Attributes:
        run: The run. Only the columns that ingest uses are the same as in the store.
        signals: Its signals.
        last_seqs: The highest sequence number of each rank in the newest attempt. It may lack ranks.
        names: The signals of the last record. The run has all of them.
    """

    run: Run
    signals: SignalLimit
    last_seqs: dict[int, int] = field(default_factory=dict)
    names: Sequence[str] = ()

    def match_continuation(self, valid: ValidBatch, left_out: LeftOutCounter) -> "list[ValidRecord] | None":
        """Return the records of a batch that only continues the newest attempt, or None for any other batch.

        The signals for which the run has no place are left out. The run must have left out as many before.

        Args:
            valid: The batch.
            left_out: Counts these signals.
        """
        if not self._is_continued_by(valid.batch):
            return None
        last = self.last_seqs.get(valid.batch.rank)
        if last is None:
            return None
        records = valid.records
        for place, record in enumerate(valid.records):
            if record.seq <= last:
                return None
            last = record.seq
            if self._knows(record.names):
                continue
            new = [name for name in record.names if name not in self.signals.names]
            if not self.signals.takes_none_of(new) or len(new) > self.run.left_out_signals:
                return None
            left_out.add(new)
            if records is valid.records:
                records = [*records]
            records[place] = without(record, frozenset(new))
        return records

    def moved_to(self, run: Run) -> "KnownRun | None":
        """Return the state after other collectors have extended the log; None if the signals may differ.

        Args:
            run: The run now, locked. If it was deleted and has begun again, it has other signals.
        """
        if (run.started_at, run.signal_count) != (self.run.started_at, self.run.signal_count):
            return None
        return KnownRun(run=run, signals=self.signals, names=self.names)

    def _is_continued_by(self, batch: wire.Batch) -> bool:
        run = self.run
        return not (
            batch.attempt != run.attempt
            or run.ended is not None
            or batch.end is not None
            or batch.config is not None
            or batch.world_size > run.world_size
            or batch.capability != run.capability
            or (batch.source and batch.source != run.source)
            or (run.world_size > 1 and SEEN_SHARE not in self.signals.names)  # its first record adds the signal
        )

    def _knows(self, names: Sequence[str]) -> bool:
        if names == self.names:
            return True
        if not self.signals.names.issuperset(names):
            return False
        self.names = names
        return True


class KnownRuns:
    """The runs of the newest batches. The run whose last batch is oldest is dropped first."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, KnownRun] = OrderedDict()
        self._ranks: dict[str, int] = {}  # when each run was kept last; a new rank of a run is kept with its run
        self._rank_count = 0

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def ranks(self) -> int:
        """The number of ranks of all runs together, at most `MAX_RANKS`."""
        return self._rank_count

    def find(self, run_id: str) -> KnownRun | None:
        """Return the state that is kept of a run, or None."""
        known = self._runs.get(run_id)
        if known is not None:
            self._runs.move_to_end(run_id)
        return known

    def keep(self, known: KnownRun) -> None:
        """Keep the state of a run."""
        self.forget(known.run.id)
        self._runs[known.run.id] = known
        self._ranks[known.run.id] = len(known.last_seqs)
        self._rank_count += len(known.last_seqs)
        while len(self._runs) > MAX_RUNS or self._rank_count > MAX_RANKS:
            self.forget(next(iter(self._runs)))

    def forget(self, run_id: str | None = None) -> None:
        """Drop a run, or all runs, because the store did not accept the state that is kept here."""
        if run_id is None:
            self._runs.clear()
            self._ranks.clear()
            self._rank_count = 0
        elif self._runs.pop(run_id, None) is not None:
            self._rank_count -= self._ranks.pop(run_id)
