"""Where sealed batches wait, oldest first, until the collector has answered for them: on disk, else in memory."""

import threading
from collections import Counter, deque
from dataclasses import dataclass

from trainer_hooks.delivery.spool import OnDisk, Spool
from trainer_hooks.delivery.tally import Tally

__all__ = ["InMemory", "Outbox", "Waiting"]

# At 5 KB a record this holds 6,500 steps: at ten seconds a step, most of a day without a collector.
MEMORY_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, eq=False)
class InMemory:
    """A batch that the disk would not take."""

    body: bytes
    records: int

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return len(self.body)

    def read(self) -> bytes:
        """Give the encoded batch."""
        return self.body

    def remove(self) -> None:
        """Leave nothing behind."""


Waiting = InMemory | OnDisk


class Outbox:
    """A queue of sealed batches: the packer appends, the sender takes from the other end once they are answered for.

    A batch is written to the spool; where that fails, because the disk is full or there is none, it stays in memory.
    Both are bounded, and where one is full its oldest batches give way, because an alert needs the newest.

    Args:
        tally: Counts what gave way, and what could not be written.
        spool: Where batches survive this process; without one all of them stay in memory.
        memory_bytes: Most bytes held in memory.
    """

    def __init__(self, tally: Tally, *, spool: Spool | None = None, memory_bytes: int = MEMORY_BYTES) -> None:
        self._tally = tally
        self._spool = spool
        self._limits: dict[type[Waiting], int] = {
            InMemory: memory_bytes,
            OnDisk: spool.capacity_bytes if spool else 0,
        }
        self._waiting: deque[Waiting] = deque()
        self._bytes: Counter[type[Waiting]] = Counter()
        self._records: Counter[type[Waiting]] = Counter()
        # Held for the moving of references only, never while the disk works.
        self._lock = threading.Lock()

    @property
    def spool_bytes(self) -> int | None:
        """Bytes on disk that wait for the collector; None without a spool."""
        return self._bytes[OnDisk] if self._spool else None

    @property
    def records_in_memory(self) -> int:
        """Records that end with this process."""
        return self._records[InMemory]

    @property
    def records_on_disk(self) -> int:
        """Records that wait for this process or a later one."""
        return self._records[OnDisk]

    def open(self) -> None:
        """Take over what dead processes of the run have left in the spool; it comes before all else."""
        if self._spool is None:
            return
        try:
            inherited = self._spool.claim()
        except (OSError, ImportError) as error:
            self._tally.note("unspooled", f"the spool cannot be read, what it may hold has to wait: {error}")
            return
        for batch in inherited:
            self._add(batch)
        self._make_room()

    def append(self, body: bytes, records: int) -> None:
        """Keep a sealed batch with this many records."""
        self._add(self._kept(body, records))
        self._make_room()

    def oldest(self) -> Waiting | None:
        """Give the batch to be sent next, which stays; None where nothing waits."""
        with self._lock:
            return self._waiting[0] if self._waiting else None

    def discard(self, batch: Waiting) -> bool:
        """Remove a batch, and say whether it was still there."""
        with self._lock:
            if batch not in self._waiting:
                return False
            self._waiting.remove(batch)
            self._bytes[type(batch)] -= batch.nbytes
            self._records[type(batch)] -= batch.records
            is_last = not self._waiting
        try:
            batch.remove()
        except OSError as error:
            self._tally.note(
                "unspooled", f"a batch that has been sent cannot be removed, and may be sent again: {error}"
            )
        if is_last and self._spool:
            self._spool.release_claims()
        return True

    def close(self) -> None:
        """Give up the spool, so that another process may send what is left there."""
        if self._spool:
            self._spool.close()

    def disown(self) -> None:
        """Forget the spool in a forked child, which must not hold its parent's locks."""
        if self._spool:
            self._spool.disown()

    def _kept(self, body: bytes, records: int) -> Waiting:
        if self._spool is None:
            return InMemory(body, records)
        try:
            return self._spool.write(body, records)
        except (OSError, ImportError) as error:
            self._tally.count("unspooled", f"records are kept in memory only, the spool fails: {error}", by=records)
            return InMemory(body, records)

    def _add(self, batch: Waiting) -> None:
        with self._lock:
            self._waiting.append(batch)
            self._bytes[type(batch)] += batch.nbytes
            self._records[type(batch)] += batch.records

    def _make_room(self) -> None:
        for kind, limit in self._limits.items():
            while (oldest := self._oldest_beyond(kind, limit)) is not None:
                if self.discard(oldest):
                    self._tally.count(
                        "outbox_full", "the outbox is full; the oldest records were lost", by=oldest.records
                    )

    def _oldest_beyond(self, kind: type[Waiting], limit: int) -> Waiting | None:
        with self._lock:
            if self._bytes[kind] <= limit:
                return None
            return next((batch for batch in self._waiting if isinstance(batch, kind)), None)
