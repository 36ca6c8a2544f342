"""Applies the statements of a batch about its run: the attempt, world size, configuration and end."""

import logging
from collections.abc import Sequence

from monitor_server.action_requests.due_requests import end_requests_of_process, end_undelivered_requests
from monitor_server.ingest.record_log.config_changes import describe_changes
from monitor_server.ingest.validation.records import ValidRecord
from monitor_server.ingest.validation.validate import ValidBatch
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.runs import Run
from trainer_hooks import wire

__all__ = ["enter_run", "take_back_late_end"]

log = logging.getLogger(__name__)


def enter_run(repositories: Repositories, valid: ValidBatch, *, now: float, stall_seconds: float) -> tuple[Run, int]:
    """Lock the run of a batch, or add it, and apply the statements of the batch about it.

    Each change of the run takes a position in its log.

    Args:
        repositories: The store, in the transaction of the batch.
        valid: The batch.
        now: Seconds since the epoch.
        stall_seconds: How long a new run may be silent before it counts as stalled.

    Returns:
        The run, and the number of ranks of the batch's attempt.
    """
    batch, attempts = valid.batch, repositories.attempts
    run = repositories.runs.lock(valid.run_id) or _add_run(repositories, valid, now=now, stall_seconds=stall_seconds)
    is_newer = batch.attempt > run.attempt
    if is_newer:
        run.attempt, run.ended, run.last_step_at = batch.attempt, None, now
    run.last_seen = now
    known = attempts.enter(run.id, batch.attempt, world_size=batch.world_size, now=now, position=run.log_end + 1)
    world_size = known or batch.world_size
    if known is None:
        run.log_end += 1
        if batch.attempt < run.attempt:
            log.warning(
                "attempt %d of run %r is new and lower than the newest, %d: its steps are "
                "stored, and no detector sees them; a later launch must have a higher RLVITALS_ATTEMPT",
                batch.attempt,
                run.name,
                run.attempt,
            )
    if batch.attempt == run.attempt:
        run.world_size, run.capability = world_size, batch.capability
        run.source = batch.source or run.source
        if valid.config is not None and batch.config:
            attempts.save_config(run.id, batch.attempt, valid.config, describe=describe_changes)
        # The first batch of rank 0 after a start of its process. The batches of an earlier process may arrive later.
        is_hello = batch.config is not None and not batch.records and batch.end is None
        if is_hello:
            end_requests_of_process(repositories, run.id, now=now)
        elif is_newer:
            end_undelivered_requests(repositories, run.id, now=now)
        if is_hello and run.ended is not None:
            _continue(run, now=now)
        if batch.end is not None and run.ended != batch.end:
            run.ended, run.ended_rank = batch.end, batch.rank
            run.log_end += 1
    return run, world_size


def take_back_late_end(
    repositories: Repositories, run: Run, batch: wire.Batch, new: Sequence[ValidRecord], *, now: float
) -> None:
    """Let an ended run continue if records show that the end was not the end of the training.

    A process reports its end after all its records. A record with a higher sequence number than every record of its
    rank shows that the end was the one of an earlier process, and came late. If a rank has finished and another one
    reports a later step, the first has only left the training early. A rank that was stopped has stopped the others.

    Args:
        repositories: The store, in the transaction of the batch.
        run: The locked run.
        batch: The batch, whose statements have been applied.
        new: Its new records, which are not stored yet.
        now: Seconds since the epoch.
    """
    if not new or run.ended is None or run.ended_rank is None or batch.end is not None or batch.attempt != run.attempt:
        return
    if batch.rank == run.ended_rank:
        last = repositories.records.last_seq(run.id, batch.attempt, batch.rank)
        if not 0 <= last < max(record.seq for record in new):
            return
        reason = "the end of an earlier process has come late, or two processes have the same run, attempt and rank"
    else:
        last = repositories.records.last_step(run.id, batch.attempt, run.ended_rank)
        if run.ended != "finished" or max(record.step for record in new) <= last:
            return
        reason = f"rank {run.ended_rank}, which reported that, has only left the training"
    log.warning(
        "run %r was %s, and rank %d sends later records: %s; the run continues",
        run.name,
        run.ended,
        batch.rank,
        reason,
    )
    _continue(run, now=now)


def _continue(run: Run, *, now: float) -> None:
    run.ended, run.last_step_at = None, now
    run.log_end += 1


def _add_run(repositories: Repositories, valid: ValidBatch, *, now: float, stall_seconds: float) -> Run:
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
            stall_seconds=stall_seconds,
        )
    )
