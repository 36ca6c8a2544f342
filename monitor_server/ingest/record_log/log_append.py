"""Appends the new records of a valid batch to its run's log, once, in a transaction that the caller commits.

Ingest does not depend on detection. The projector reads the log in order and computes the effect of each entry on the
run. The entries are new attempts, records, and acknowledgements, each with a position.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from monitor_server.detection.protocol import SEEN_SHARE
from monitor_server.ingest.record_log.known_runs import KnownRun, KnownRuns
from monitor_server.ingest.record_log.run_entry import enter_run, take_back_late_end
from monitor_server.ingest.record_log.sampled_responses import SampledResponseLog
from monitor_server.ingest.record_log.shared_runs import SharedRuns
from monitor_server.ingest.record_log.signal_limit import LeftOutCounter, SignalLimit
from monitor_server.ingest.record_log.signal_places import SignalPlaces
from monitor_server.ingest.record_log.step_shapes import StepShapes
from monitor_server.ingest.validation.records import ValidRecord
from monitor_server.ingest.validation.validate import ValidBatch
from monitor_server.settings import Settings
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.log.blocks import pack_blocks
from monitor_server.store.repositories.log.extensions import Extension
from monitor_server.store.repositories.runs import Run
from trainer_hooks import wire

__all__ = ["Appended", "LogAppender", "LogMoved"]


class LogMoved(Exception):  # noqa: N818 - an event that is handled, and not an error
    """The log of a run does not end where this collector expected: another collector has appended to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The result of appending a batch, with the counts of its receipt.

    Attributes:
        run_id: Its run.
        attempt: Its attempt.
        newest_attempt: The newest attempt of the run.
        log_end: The end of the run's log after the batch.
        accepted: The number of its records that are new and stored.
        duplicates: The number of its records that were stored before.
        refused_responses: The number of its sampled responses that were refused.
        rejected: The records that were refused, with the reasons.
        left_out: The number of signals that its new records lost; None if they lost none.
    """

    run_id: str
    attempt: int
    newest_attempt: int
    log_end: int
    accepted: int
    duplicates: int = 0
    refused_responses: int = 0
    rejected: Sequence[wire.Rejection] = ()
    left_out: wire.LeftOut | None = None


class LogAppender:
    """Appends batches to the logs of runs. Its caches can be dropped at any time, because the store has their content.

    Args:
        settings: The limits.
        clock: Seconds since the epoch.
        first_signals: Signals that a run always takes, however many other signals it has.
    """

    def __init__(
        self, *, settings: Settings, clock: Callable[[], float], first_signals: frozenset[str] = frozenset()
    ) -> None:
        self._settings = settings
        self._first_signals = first_signals | {SEEN_SHARE}
        self._clock = clock
        self._known = KnownRuns()
        self._step_shapes = StepShapes()
        self._responses = SampledResponseLog(settings)
        self._shared = SharedRuns(clock)

    @property
    def caches(self) -> dict[str, Callable[[], int]]:
        """Functions that return the number of entries of each cache."""
        return {
            "log_runs": lambda: len(self._known),
            "log_ranks": lambda: self._known.ranks,
            "log_steps": lambda: len(self._step_shapes),
            "log_shared_runs": lambda: len(self._shared),
            "thinned_runs": lambda: self._responses.thinned_runs,
        }

    def forget(self, run_id: str | None = None) -> None:
        """Drop a run, or all runs, from memory, because the store did not accept the change."""
        self._step_shapes.forget()
        self._known.forget(run_id)

    def append_deferred(self, repositories: Repositories, valid: ValidBatch) -> Appended:
        """Append a batch; if it only continues its run, `flush` writes it with the other batches of the commit."""
        known = self._known.find(valid.run_id)
        if known is not None and self._shared.is_shared(valid.run_id):
            known = self._lock_shared(repositories, known, valid.batch.rank)
        if known is not None:
            left_out = LeftOutCounter(self._settings.max_signals)
            records = known.match_continuation(valid, left_out)
            if records is not None:
                return self._append_next(repositories, known, valid, records, left_out)
        self._write_deferred(repositories, ends_transaction=False)
        return self._append_any(repositories, valid)

    def prepare_change(self, repositories: Repositories, run_id: str) -> None:
        """Write the deferred batches, so that their runs are locked in order, before a person's change of a run.

        The run is forgotten, because the change may take a position in its log.

        Raises:
            LogMoved: As `flush` does.
        """
        self._write_deferred(repositories, ends_transaction=False)
        self._known.forget(run_id)

    def flush(self, repositories: Repositories) -> None:
        """Write the deferred batches as the last work of the transaction.

        Raises:
            LogMoved: If the log of one of the runs has moved on. The transaction must not be committed; after `forget`
                the same batches can be appended again.
        """
        self._write_deferred(repositories, ends_transaction=True)

    def _write_deferred(self, repositories: Repositories, *, ends_transaction: bool) -> None:
        deferred, repositories.deferred = repositories.deferred, ()
        if not deferred or repositories.records.extend(deferred, ends_transaction=ends_transaction):
            return
        for extension in deferred:
            self._shared.note_moved(extension.run_id)
        raise LogMoved("the end of the log of a run has changed in the meantime")

    def _lock_shared(self, repositories: Repositories, known: KnownRun, rank: int) -> KnownRun | None:
        """Lock a run to which other collectors append, and return its state, which has the last record of a rank.

        Return None if they have changed more than its log.
        """
        run_id = known.run.id
        is_locked = bool(repositories.deferred) and repositories.deferred[-1].run_id == run_id  # by the batch before
        if not is_locked:
            # The runs before this one are locked first: collectors that lock in different orders wait for each other.
            self._write_deferred(repositories, ends_transaction=False)
            run = repositories.runs.lock(run_id)
            if run is None or run.log_end != known.run.log_end:
                self._shared.note_moved(run_id)
                self._step_shapes.forget(run_id)
                self._known.forget(run_id)
                moved = None if run is None else known.moved_to(run)
                if moved is None:
                    return None
                known = moved
        if rank not in known.last_seqs:
            known.last_seqs[rank] = repositories.records.last_seq(run_id, known.run.attempt, rank)
            self._known.keep(known)
        return known

    def _append_next(
        self,
        repositories: Repositories,
        known: KnownRun,
        valid: ValidBatch,
        new: list[ValidRecord],
        left_out: LeftOutCounter,
    ) -> Appended:
        """Append the records of a batch that only continues a run."""
        batch, run = valid.batch, known.run
        if any(record.shapes for record in new):
            new, rejected = self._step_shapes.select_fitting(
                repositories, run.id, valid, new, keep=lambda record: record
            )
        else:
            rejected = list(valid.rejected)
        begin, end = run.log_end, run.log_end + len(new)
        blocks = pack_blocks(new, attempt=batch.attempt, rank=batch.rank, begin=begin)
        repositories.deferred += (Extension(run_id=run.id, begin=begin, end=end, now=self._clock(), blocks=blocks),)
        run.log_end = end
        refused_responses = self._responses.append(repositories, run.id, batch, new)
        if valid.records:
            known.last_seqs[batch.rank] = valid.records[-1].seq
        return Appended(
            run_id=run.id,
            attempt=batch.attempt,
            newest_attempt=run.attempt,
            log_end=end,
            accepted=len(new),
            refused_responses=refused_responses,
            rejected=rejected,
            left_out=left_out.result,
        )

    def _append_any(self, repositories: Repositories, valid: ValidBatch) -> Appended:
        batch, now = valid.batch, self._clock()
        stall_seconds = self._settings.stall_minimum_seconds
        run, world_size = enter_run(repositories, valid, now=now, stall_seconds=stall_seconds)
        settings, left_out = self._settings, LeftOutCounter(self._settings.max_signals)
        last_seqs = self._last_seqs(run)
        if last_seqs is None:  # the run, or an attempt of it, may have been removed and begun again
            self._step_shapes.forget(run.id)
        names = repositories.steps.signals(run.id)
        signals = SignalLimit(names, most=settings.max_signals, first=self._first_signals)
        places = SignalPlaces(repositories, run, signals, left_out, has_ranks=world_size > 1)
        new, rejected = self._select(repositories, run, valid, places.assign)
        if not signals.is_full:  # the limit was raised
            run.left_out_signals, run.left_out_step, run.left_out_name = 0, None, None
        take_back_late_end(repositories, run, batch, new, now=now)
        begin = run.log_end
        run.log_end += len(new)
        blocks = pack_blocks(new, attempt=batch.attempt, rank=batch.rank, begin=begin)
        repositories.records.add(run.id, blocks)
        refused_responses = self._responses.append(repositories, run.id, batch, new)
        repositories.runs.save_ingest(run)
        self._know(repositories, run, batch, signals, last_seqs=last_seqs or {})
        return Appended(
            run_id=run.id,
            attempt=batch.attempt,
            newest_attempt=run.attempt,
            log_end=run.log_end,
            accepted=len(new),
            duplicates=len(batch.records) - len(new) - len(rejected),
            refused_responses=refused_responses,
            rejected=rejected,
            left_out=left_out.result,
        )

    def _last_seqs(self, run: Run) -> dict[int, int] | None:
        """Return the highest sequence number of each rank, as kept in memory, if the log still ends at the same place.

        Return None if the log has moved: other collectors may have appended records of any rank, or removed some.
        """
        known = self._known.find(run.id)
        is_same = known is not None and known.run.attempt == run.attempt and known.run.log_end == run.log_end
        return known.last_seqs if known is not None and is_same else None

    def _know(
        self,
        repositories: Repositories,
        run: Run,
        batch: wire.Batch,
        signals: SignalLimit,
        *,
        last_seqs: dict[int, int],
    ) -> None:
        """Keep the run for the next batch, with the sequence numbers of the ranks that have not sent this batch."""
        if batch.attempt != run.attempt:
            self._known.forget(run.id)
            return
        last_seqs[batch.rank] = repositories.records.last_seq(run.id, batch.attempt, batch.rank)
        self._known.keep(KnownRun(run=run, signals=signals, last_seqs=last_seqs))

    def _select(
        self,
        repositories: Repositories,
        run: Run,
        valid: ValidBatch,
        keep: Callable[[ValidRecord], ValidRecord],
    ) -> tuple[list[ValidRecord], list[wire.Rejection]]:
        """Return the new records that fit the run, as ``keep`` returns them, and the refused records."""
        batch = valid.batch
        seen = repositories.records.stored_seqs(
            run.id, batch.attempt, batch.rank, [record.seq for record in valid.records]
        )
        unseen: list[ValidRecord] = []
        for record in valid.records:
            if record.seq not in seen:
                seen.add(record.seq)
                unseen.append(record)
        return self._step_shapes.select_fitting(repositories, run.id, valid, unseen, keep=keep)
