"""Where packed records wait for the collector's receipt. A disk spool takes this place by the same protocol."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trainer_hooks.delivery.tally import Tally

__all__ = ["MemoryOutbox", "Outbox", "Packed"]

# At 5 KB a record this holds 6,500 steps: at ten seconds a step, most of a day without a collector.
CAPACITY_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Packed:
    """One encoded record, and the attempt that it belongs to."""

    attempt: int
    body: bytes


class Outbox(Protocol):
    """A queue of packed records, oldest first, used by one thread; records leave it only when answered for."""

    def __len__(self) -> int: ...

    def append(self, record: Packed) -> None:
        """Add a record at the end; what has to give way is counted."""

    def head(self, max_records: int, max_bytes: int) -> Sequence[Packed]:
        """Give the oldest records of one attempt, at least one, without removing them."""

    def discard(self, count: int) -> None:
        """Remove the oldest records."""


class MemoryOutbox:
    """An outbox in memory; when it is full the oldest records give way, because an alert needs the newest.

    Args:
        tally: Counts what gave way.
        capacity_bytes: Most bytes of records held.
    """

    def __init__(self, tally: Tally, *, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._tally = tally
        self._capacity_bytes = capacity_bytes
        self._records: deque[Packed] = deque()
        self._held_bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    def append(self, record: Packed) -> None:
        """Add a record at the end."""
        self._records.append(record)
        self._held_bytes += len(record.body)
        while self._held_bytes > self._capacity_bytes and self._records:
            self.discard(1)
            self._tally.count("outbox_full", "the collector is away and the outbox is full; the oldest record was lost")

    def head(self, max_records: int, max_bytes: int) -> Sequence[Packed]:
        """Give the oldest records of one attempt, at least one, without removing them."""
        chosen: list[Packed] = []
        size = 0
        for record in self._records:
            size += len(record.body)
            if chosen and (len(chosen) == max_records or size > max_bytes or record.attempt != chosen[0].attempt):
                break
            chosen.append(record)
        return chosen

    def discard(self, count: int) -> None:
        """Remove the oldest records."""
        for _ in range(count):
            self._held_bytes -= len(self._records.popleft().body)
