"""Reads a run's log in order, entry by entry."""

from collections.abc import Iterator
from itertools import groupby

from monitor_server.step_processing.run_context import RunContext
from monitor_server.step_processing.steps.waiting import WaitingSteps
from monitor_server.store.repositories.acknowledgements import StoredAcknowledgement
from monitor_server.store.repositories.log.blocks import StoredRecord

__all__ = ["RECORDS_PER_SLICE", "LogEntry", "read_log"]

RECORDS_PER_SLICE = 256
BYTES_PER_SLICE = 16 * 1024 * 1024

LogEntry = int | StoredAcknowledgement | list[StoredRecord]
"""The start of an attempt, an acknowledgement, or the records of a batch."""


def read_log(context: RunContext, waiting: WaitingSteps, *, limit: int | None = None) -> Iterator[tuple[int, LogEntry]]:
    """Yield the entries that follow the run's position, each with the position at which it ends.

    About ``limit`` records are read, `RECORDS_PER_SLICE` if left out, and at least one batch if there is one.
    """
    run, repositories = context.run, context.repositories
    records, is_end = repositories.records.after(
        run.id, run.position, limit=limit or RECORDS_PER_SLICE, max_bytes=BYTES_PER_SLICE
    )
    waiting.look_up(records)
    end = run.log_end if is_end else records[-1].batch
    others: dict[int, LogEntry] = {}
    others |= repositories.attempts.beginnings(run.id, after=run.position)
    others |= repositories.acknowledgements.after(run.id, run.position)
    entries: list[tuple[int, int, LogEntry]] = [
        (position, position, entry) for position, entry in others.items() if position <= end
    ]
    for batch, group in groupby(records, key=lambda record: record.batch):
        of_batch = list(group)
        entries.append((of_batch[0].position, batch, of_batch))
    for _, position, entry in sorted(entries, key=lambda entry: entry[0]):
        yield position, entry
    run.position = max(run.position, end)
