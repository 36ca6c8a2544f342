"""Appends a batch to the log of its run through the writer, and waits until it is committed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from monitor_server.ingest.deliveries import Deliveries
from monitor_server.ingest.record_log.log_append import Appended, LogAppender
from monitor_server.ingest.validation.validate import ValidBatch
from monitor_server.ingest.writer import Writer
from monitor_server.instrumentation.spans import OpenSpan
from trainer_hooks import wire

__all__ = ["BatchAppender"]

# More records in one commit would delay the other requests by more than a tenth of a second.
MAX_RECORDS_PER_COMMIT: Final = 500
MAX_BYTES_PER_COMMIT: Final = 1024 * 1024


class BatchAppender:
    """Appends batches for requests on one event loop.

    Args:
        writer: Commits the batches.
        log: The logs of the runs.
        deliveries: Hand the results of the writer to the event loop.
        span: Opens a span.
    """

    def __init__(self, writer: Writer, log: LogAppender, *, deliveries: Deliveries, span: OpenSpan) -> None:
        self._writer = writer
        self._log = log
        self._span = span
        self._deliveries = deliveries

    async def append(self, valid: ValidBatch) -> Appended:
        """Append a batch to the log of its run, and return the result after the commit.

        A large batch is committed in parts, so that the batches of other senders are committed in between.

        Raises:
            OutcomeUnknown: If the database has not confirmed the batch in time.
            Unavailable: If the batch could not be stored. Earlier parts may be stored; if the sender repeats the batch,
                they are duplicates.
        """
        parts = valid.parts(most_records=MAX_RECORDS_PER_COMMIT, most_bytes=MAX_BYTES_PER_COMMIT)
        appended = [await self._append_part(part) for part in parts]
        if len(appended) == 1:
            return appended[0]
        return replace(
            appended[-1],
            accepted=sum(part.accepted for part in appended),
            duplicates=sum(part.duplicates for part in appended),
            refused_responses=sum(part.refused_responses for part in appended),
            rejected=sorted((each for part in appended for each in part.rejected), key=lambda each: each.index),
            left_out=_together([part.left_out for part in appended if part.left_out is not None]),
        )

    async def _append_part(self, valid: ValidBatch) -> Appended:
        future = self._writer.submit(
            valid.run_id,
            lambda repositories: self._log.append_deferred(repositories, valid),
            weight=1 + len(valid.records),
            size=valid.size,
        )
        with self._span("append batch", {"rlvitals.run_id": valid.run_id, "rlvitals.records": len(valid.records)}):
            return await self._deliveries.wait(future)


def _together(parts: Sequence[wire.LeftOut]) -> wire.LeftOut | None:
    """Return the sum of the signals that the parts of a batch have lost."""
    if not parts:
        return None
    return wire.LeftOut(signals=sum(part.signals for part in parts), detail=parts[0].detail)
