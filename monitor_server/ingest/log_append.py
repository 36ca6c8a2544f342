"""Appends a valid batch to its run's log: what is new of it, once, in a transaction that the caller commits.

Ingest knows nothing of detection. What a log entry does to the run is computed by the projector behind it, which reads
the log in order: attempts that begin, records, and acknowledgements, each with a position.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from monitor_server.errors import RecordError, TooManySignals
from monitor_server.ingest.records import ValidRecord
from monitor_server.ingest.shapes import Shape, check_shapes, summary_shapes
from monitor_server.ingest.validate import ValidBatch
from monitor_server.settings import Settings
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.records import StoredRecord
from monitor_server.store.repositories.runs import Run
from trainer_hooks import wire

__all__ = ["Appended", "Log"]

log = logging.getLogger(__name__)

MAX_CACHED_RUNS = 512
MAX_CACHED_STEPS = 4_096
THINNING_INTERVAL_STEPS = 32  # thinning after every step would cost more than the few responses that wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What became of a batch: the run after it, and what its receipt counts."""

    run: Run
    attempt: int
    accepted: int
    duplicates: int
    refused_responses: int
    rejected: Sequence[wire.Rejection]


class Log:
    """Appends batches to the logs of runs. Its caches can be dropped at any time: the store has what they hold."""

    def __init__(self, *, settings: Settings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._signals: OrderedDict[str, set[str]] = OrderedDict()
        self._shapes: OrderedDict[tuple[str, int, int], dict[str, Shape]] = OrderedDict()

    def forget(self, run_id: str | None = None) -> None:
        """Drop what is in memory of a run, or of all runs, because the store did not take it."""
        self._shapes.clear()
        if run_id is None:
            self._signals.clear()
        else:
            self._signals.pop(run_id, None)

    def append(self, repositories: Repositories, valid: ValidBatch) -> Appended:
        """Append a batch."""
        batch, now = valid.batch, self._clock()
        run = self._enter(repositories, valid, now=now)
        begin = run.log_end
        new, rejected = self._select(repositories, run, valid)
        run.log_end += len(new)
        stored = [
            StoredRecord(
                position=begin + place,
                batch=run.log_end,
                attempt=batch.attempt,
                rank=batch.rank,
                seq=record.seq,
                step=record.step,
                body=record.body,
            )
            for place, record in enumerate(new, start=1)
        ]
        repositories.records.add(run.id, stored)
        refused_responses = self._append_responses(repositories, run, batch, new)
        repositories.runs.save_ingest(run)
        return Appended(
            run=run,
            attempt=batch.attempt,
            accepted=len(new),
            duplicates=len(batch.records) - len(new) - len(rejected),
            refused_responses=refused_responses,
            rejected=rejected,
        )

    def _enter(self, repositories: Repositories, valid: ValidBatch, *, now: float) -> Run:
        """Bring the run to what the batch says of it; each change of it takes a position in the log."""
        batch, runs = valid.batch, repositories.runs
        run = runs.lock(valid.run_id) or self._add_run(repositories, valid, now=now)
        is_newer = batch.attempt > run.attempt
        if is_newer:
            run.attempt, run.ended, run.last_step_at = batch.attempt, None, now
        run.last_seen = now
        world_size = runs.enter_attempt(
            run.id, batch.attempt, world_size=batch.world_size, now=now, position=run.log_end + 1
        )
        if world_size is None:
            run.log_end += 1
            if batch.attempt < run.attempt:
                log.warning(
                    "attempt %d of run %r is heard for the first time and lower than the newest, %d: its steps are "
                    "stored, and no detector sees them; a later launch must have a higher RLVITALS_ATTEMPT",
                    batch.attempt,
                    run.name,
                    run.attempt,
                )
        if batch.attempt == run.attempt:
            run.world_size, run.capability = world_size or batch.world_size, batch.capability
            run.source = batch.source or run.source
            if valid.config is not None and batch.config:
                runs.save_config(run.id, batch.attempt, valid.config)
            # The hello of rank 0's process, which has started again; what a dead process has left may come late.
            is_hello = batch.config is not None and not batch.records and batch.end is None
            if is_hello and run.ended is not None:
                run.ended, run.last_step_at = None, now
                run.log_end += 1
            if batch.end is not None and run.ended != batch.end:
                run.ended = batch.end
                run.log_end += 1
        return run

    def _add_run(self, repositories: Repositories, valid: ValidBatch, *, now: float) -> Run:
        batch = valid.batch
        return repositories.runs.add(
            Run(
                id=valid.run_id,
                project=batch.project,
                name=batch.run,
                source=batch.source,
                capability=batch.capability,
                world_size=batch.world_size,
                attempt=batch.attempt,
                started_at=now,
                last_seen=now,
                last_step_at=now,
                stall_seconds=self._settings.stall_minimum_seconds,
            )
        )

    def _select(
        self, repositories: Repositories, run: Run, valid: ValidBatch
    ) -> tuple[list[ValidRecord], list[wire.Rejection]]:
        """Return the records that are new and fit the run, and which were refused."""
        batch = valid.batch
        seen = repositories.records.seen(run.id, batch.attempt, batch.rank, [record.seq for record in valid.records])
        rejected = list(valid.rejected)
        new: list[ValidRecord] = []
        for record in valid.records:
            if record.seq in seen:
                continue
            seen.add(record.seq)
            try:
                shapes = self._shapes_of(repositories, run, batch.attempt, record)
                check_shapes(record.shapes, shapes, step=record.step, rank=batch.rank)
                self._reserve(repositories, run, record)
            except RecordError as error:
                rejected.append(wire.Rejection(index=record.index, error=type(error).__name__, detail=str(error)))
            else:
                shapes |= record.shapes
                new.append(record)
        return new, sorted(rejected, key=lambda rejection: rejection.index)

    def _shapes_of(self, repositories: Repositories, run: Run, attempt: int, record: ValidRecord) -> dict[str, Shape]:
        """Return the shapes of the summaries that are stored of the record's step."""
        if not record.shapes:
            return {}
        key = (run.id, attempt, record.step)
        shapes = self._shapes.get(key)
        if shapes is None:
            shapes = {}
            for stored in repositories.records.of_steps(run.id, attempt, [record.step]).get(record.step, ()):
                shapes |= summary_shapes(wire.decode_record(stored.body))
            self._shapes[key] = shapes
            if len(self._shapes) > MAX_CACHED_STEPS:
                self._shapes.popitem(last=False)
        return shapes

    def _reserve(self, repositories: Repositories, run: Run, record: ValidRecord) -> None:
        """Give new signals a place, or refuse the record if the run would have too many."""
        known = self._signals.get(run.id)
        # Signals are only ever added, so that their number tells whether another collector has added some.
        if known is None or len(known) != run.signal_count:
            known = self._signals[run.id] = set(repositories.steps.signals(run.id))
            if len(self._signals) > MAX_CACHED_RUNS:
                self._signals.popitem(last=False)
        new = [name for name in record.names if name not in known]
        if not new:
            return
        start = len(known)
        if start + len(new) > self._settings.max_signals:
            raise TooManySignals(
                f"a run must have at most {self._settings.max_signals} signals, got {len(new)} new ones such as "
                f"{new[0]!r} beside {start}; send fewer names or raise RLVITALS_MAX_SIGNALS"
            )
        repositories.steps.add_signals(run.id, new, start=start)
        known.update(new)
        run.signal_count = len(known)

    def _append_responses(
        self, repositories: Repositories, run: Run, batch: wire.Batch, records: Sequence[ValidRecord]
    ) -> int:
        """Store the sampled responses of new records, thin old ones, and return how many were refused."""
        refused = sum(record.refused_responses for record in records)
        with_responses = [record for record in records if record.responses]
        for record in with_responses:
            refused += repositories.responses.add(
                run.id,
                attempt=batch.attempt,
                step=record.step,
                rank=batch.rank,
                new=record.responses,
                max_per_step=self._settings.max_responses,
            )
        newest = max((record.step for record in with_responses), default=0)
        if newest // THINNING_INTERVAL_STEPS > (run.last_step or 0) // THINNING_INTERVAL_STEPS:
            repositories.responses.thin(run.id, newest_step=newest, whole_steps=self._settings.response_steps)
        return refused
