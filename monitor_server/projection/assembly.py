"""Puts a step together from the records of its ranks, and refuses records that could never be merged.

Pure: knows neither the store nor detection.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from monitor_server.errors import SummaryConflict
from monitor_server.store.repositories.records import StoredRecord
from monitor_server.store.repositories.steps import Step
from trainer_hooks import wire

__all__ = ["StepRecords"]

Shape = tuple[object, ...]
Value = TypeVar("Value")


@dataclass(slots=True)
class StepRecords:
    """The records of one step of one attempt, by (rank, seq)."""

    records: dict[tuple[int, int], wire.Record] = field(default_factory=dict)
    _shapes: dict[str, Shape] = field(default_factory=dict)

    @classmethod
    def of(cls, stored: Iterable[StoredRecord]) -> "StepRecords":
        """Decode what the store holds."""
        held = cls()
        for record in stored:
            held.add(record.rank, record.seq, wire.decode_record(record.body))
        return held

    @property
    def ranks(self) -> int:
        """How many ranks have reported."""
        return len({rank for rank, _ in self.records})

    def add(self, rank: int, seq: int, record: wire.Record) -> None:
        """Add a record.

        Raises:
            SummaryConflict: If one of its summaries cannot be merged with one that is there.
        """
        shapes = {name: _shape(summary) for name, summary in record.summaries.items()}
        for name, shape in shapes.items():
            held = self._shapes.get(name, shape)
            if held != shape:
                raise SummaryConflict(
                    f"summaries of {name!r} at step {record.step} must be alike on all ranks, "
                    f"got {_spelt(shape)} from rank {rank} beside {_spelt(held)}"
                )
        self._shapes |= shapes
        self.records[rank, seq] = record

    def merged(self, *, step: int, attempt: int, now: float) -> Step:
        """Merge all records; rank 0 speaks for what cannot be merged, and ``now`` where no time was told."""
        ordered = [self.records[key] for key in sorted(self.records, key=lambda key: (-key[0], key[1]))]
        told = _last([record.time for record in ordered])
        return Step(
            step=step,
            attempt=attempt,
            time=now if told is None else told,
            policy_version=_last([record.policy_version for record in ordered]),
            data_version=_last([record.data_version for record in ordered]),
            signals=wire.merge(ordered),
        )


def _shape(summary: wire.Summary) -> Shape:
    """What must be equal for two summaries to merge."""
    if isinstance(summary, wire.Histogram):
        bins = summary.counts.shape
        return ("histogram", summary.low, summary.high, bins, summary.quantile, summary.scale)
    return (type(summary).__name__.lower(), summary.statistic)


def _spelt(shape: Shape) -> str:
    return " ".join(str(part) for part in shape)


def _last(values: Sequence[Value | None]) -> Value | None:
    return next((value for value in reversed(values) if value is not None), None)
