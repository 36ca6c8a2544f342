"""Assigns the new signals of a batch their places in the run, within its limit."""

from monitor_server.detection.protocol import SEEN_SHARE
from monitor_server.ingest.record_log.signal_limit import LeftOutCounter, SignalLimit, without
from monitor_server.ingest.validation.records import ValidRecord
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.runs import Run

__all__ = ["SignalPlaces"]


class SignalPlaces:
    """The places of the signals of one run, while the records of a batch are appended.

    Args:
        repositories: Those of the transaction.
        run: The run, which receives the counts of its signals.
        signals: The signals that it has, and how many it may have.
        left_out: Counts the signals that find no place.
        has_ranks: Whether the run has several ranks.
    """

    def __init__(
        self, repositories: Repositories, run: Run, signals: SignalLimit, left_out: LeftOutCounter, *, has_ranks: bool
    ) -> None:
        self._repositories = repositories
        self._run = run
        self._signals = signals
        self._left_out = left_out
        self._has_ranks = has_ranks

    def assign(self, record: ValidRecord) -> ValidRecord:
        """Assign new signals a place, and return the record without those that find none."""
        names, run = self._signals.names, self._run
        new = [name for name in record.names if name not in names]
        if self._has_ranks and SEEN_SHARE not in names and SEEN_SHARE not in new:
            new.append(SEEN_SHARE)  # the projector adds it to steps that lack ranks
        if not new:
            return record
        start = len(names)
        # Summaries are the SDK's own signals, and fewer than what users log beside them.
        taken = self._signals.add(sorted(new, key=lambda name: name not in record.shapes))
        if taken:
            self._repositories.steps.add_signals(run.id, taken, start=start)
            run.signal_count = len(names)
        if len(taken) == len(new):
            return record
        lost = [name for name in new if name not in names]
        self._left_out.add(lost)
        if not run.left_out_signals:
            run.left_out_step, run.left_out_name = record.step, lost[0]
        run.left_out_signals = max(run.left_out_signals, len(lost))
        return without(record, frozenset(lost))
