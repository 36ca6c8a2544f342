"""Refuses records whose summaries have another shape than the stored summaries of the same step."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from monitor_server.errors import RecordError
from monitor_server.ingest.validation.records import ValidRecord
from monitor_server.ingest.validation.responses import DECODING_ERRORS
from monitor_server.ingest.validation.shapes import Shape, check_shapes, summary_shapes
from monitor_server.ingest.validation.validate import ValidBatch
from monitor_server.store.repositories import Repositories
from trainer_hooks import wire

__all__ = ["StepShapes"]

log = logging.getLogger(__name__)

MAX_STEPS: Final = 4_096
# Ranks send summaries of one shape. A step may have any number of records. Summaries that differ from the records that
# are not read here are left out when the step is merged.
RECORDS_COMPARED: Final = 8


class StepShapes:
    """The shapes of the newest steps' summaries. Shapes that are dropped are read from the store again."""

    def __init__(self) -> None:
        self._shapes: OrderedDict[tuple[str, int, int], dict[str, Shape]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._shapes)

    def forget(self, run_id: str | None = None) -> None:
        """Drop the shapes of a run, or all of them, because the store may not have a record that they contain."""
        if run_id is None:
            self._shapes.clear()
            return
        for key in [key for key in self._shapes if key[0] == run_id]:
            del self._shapes[key]

    def select_fitting(
        self,
        repositories: Repositories,
        run_id: str,
        valid: ValidBatch,
        records: Sequence[ValidRecord],
        *,
        keep: Callable[[ValidRecord], ValidRecord],
    ) -> tuple[list[ValidRecord], list[wire.Rejection]]:
        """Return the kept part of each record that fits its step, and the records of the batch that were refused.

        Args:
            repositories: The stored records of the run.
            run_id: The run.
            valid: The batch, with the refusals of its validation.
            records: The records of the batch that are examined.
            keep: Returns the part of a fitting record that is kept.
        """
        batch, rejected = valid.batch, list(valid.rejected)
        new: list[ValidRecord] = []
        for record in records:
            try:
                shapes = self._of(repositories, run_id, batch.attempt, record)
                check_shapes(record.shapes, shapes, step=record.step, rank=batch.rank)
            except RecordError as error:
                rejected.append(wire.Rejection(index=record.index, error=type(error).__name__, detail=str(error)))
            else:
                kept = keep(record)
                shapes |= kept.shapes
                new.append(kept)
        return new, sorted(rejected, key=lambda rejection: rejection.index)

    def _of(self, repositories: Repositories, run_id: str, attempt: int, record: ValidRecord) -> dict[str, Shape]:
        """Return the shapes of the stored summaries of the record's step."""
        if not record.shapes:
            return {}
        key = (run_id, attempt, record.step)
        shapes = self._shapes.get(key)
        if shapes is None:
            shapes = {}
            for body in repositories.records.some_bodies(run_id, attempt, record.step, limit=RECORDS_COMPARED):
                if body:  # retention has removed the body of the others
                    shapes |= _shapes_of(run_id, record.step, body)
            self._shapes[key] = shapes
            if len(self._shapes) > MAX_STEPS:
                self._shapes.popitem(last=False)
        return shapes


def _shapes_of(run_id: str, step: int, body: bytes) -> dict[str, Shape]:
    """Return the shapes of a stored record; one that cannot be decoded has none, because other ranks still send."""
    try:
        return summary_shapes(wire.decode_record(body))
    except DECODING_ERRORS as error:
        log.warning("a stored record of step %d of run %s cannot be decoded: %s", step, run_id, error)
        return {}
