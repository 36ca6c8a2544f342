"""Merges the records of a step's ranks. Knows neither the store's transactions nor detection."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from monitor_server.detection.protocol import SEEN_SHARE
from monitor_server.errors import SummaryConflict
from monitor_server.ingest.validation.shapes import Shape, check_shapes, summary_shapes
from monitor_server.store.repositories.records import StoredRecord
from monitor_server.store.repositories.steps import Step
from trainer_hooks import wire

__all__ = ["StepRecords"]

log = logging.getLogger(__name__)

Value = TypeVar("Value")


@dataclass(slots=True)
class StepRecords:
    """The records of one step of one attempt, by rank and sequence number."""

    records: dict[tuple[int, int], wire.Record] = field(default_factory=dict)
    body_bytes: int = 0  # of the records as they are stored
    _shapes: dict[str, Shape] = field(default_factory=dict)

    @classmethod
    def decode(cls, stored: Iterable[StoredRecord]) -> "StepRecords":
        """Decode stored records."""
        decoded = cls()
        for record in stored:
            decoded.add(record.rank, record.seq, wire.decode_record(record.body))
        return decoded

    @property
    def ranks(self) -> int:
        """How many ranks have reported."""
        return len({rank for rank, _ in self.records})

    def add(self, rank: int, seq: int, record: wire.Record) -> None:
        """Add a record. One whose summaries cannot be merged with the others' is left out, and the log says so.

        Ingest refuses such a record; two collectors that store shards of a step at once may both find nothing wrong.
        """
        if (rank, seq) in self.records:
            return
        shapes = summary_shapes(record)
        try:
            check_shapes(shapes, self._shapes, step=record.step, rank=rank)
        except SummaryConflict as error:
            log.warning("a stored record is left out of its step: %s", error)
            return
        self._shapes |= shapes
        self.records[rank, seq] = record

    def merge(self, *, step: int, attempt: int, now: float, world_size: int = 1) -> Step:
        """Merge all records. Rank 0's value stands where values cannot be merged, ``now`` where no time was sent.

        The share of the ranks that reported is a signal of a step that lacks some.
        """
        ordered = [self.records[key] for key in sorted(self.records, key=lambda key: (-key[0], key[1]))]
        sent = _last([record.time for record in ordered])
        signals = wire.merge(ordered)
        if self.ranks < world_size:
            signals[SEEN_SHARE] = self.ranks / world_size
        return Step(
            step=step,
            attempt=attempt,
            time=now if sent is None else sent,
            policy_version=_last([record.policy_version for record in ordered]),
            data_version=_last([record.data_version for record in ordered]),
            signals=signals,
        )


def _last(values: Sequence[Value | None]) -> Value | None:
    return next((value for value in reversed(values) if value is not None), None)
