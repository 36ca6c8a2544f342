"""The queue of encoded batches that wait until the collector has answered for them: on disk, or else in memory."""

import threading
from collections import Counter, deque
from dataclasses import dataclass

from trainer_hooks.delivery.drop_counter import DropCounter
from trainer_hooks.delivery.spool import BatchOnDisk, Spool

__all__ = ["BatchInMemory", "SendingQueue", "WaitingBatch"]

# At 5 KB a record this holds 6,500 steps: at ten seconds a step, most of a day without a collector.
MEMORY_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, eq=False)
class BatchInMemory:
    """A batch that could not be written to disk."""

    body: bytes
    records: int

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return len(self.body)

    def read(self) -> bytes:
        """Return the encoded batch."""
        return self.body

    def remove(self) -> None:
        """Do nothing: the memory is freed with this object."""


WaitingBatch = BatchInMemory | BatchOnDisk


class SendingQueue:
    """A first-in, first-out queue of encoded batches.

    The batch processor appends, and the exporter removes a batch from the other end once it is answered for. A batch is
    written to the spool; where that fails, because the disk is full or there is none, it stays in memory until the disk
    takes it. Both places are bounded. Where one is full, its oldest batches are dropped, because alerts depend on the
    newest batches.

    Args:
        drops: Counts records that were dropped, and records that could not be written.
        spool: Holds batches that survive this process; without one, all batches stay in memory.
        memory_bytes: Most bytes held in memory.
    """

    def __init__(self, drops: DropCounter, *, spool: Spool | None = None, memory_bytes: int = MEMORY_BYTES) -> None:
        self._drops = drops
        self._spool = spool
        self._limits: dict[type[WaitingBatch], int] = {
            BatchInMemory: memory_bytes,
            BatchOnDisk: spool.capacity_bytes if spool else 0,
        }
        self._waiting: deque[WaitingBatch] = deque()
        self._bytes: Counter[type[WaitingBatch]] = Counter()
        self._records: Counter[type[WaitingBatch]] = Counter()
        # Held while references move, never while the disk works.
        self._lock = threading.Lock()

    @property
    def batches(self) -> tuple[WaitingBatch, ...]:
        """The waiting batches, oldest first."""
        with self._lock:
            return tuple(self._waiting)

    @property
    def spool_bytes(self) -> int | None:
        """Bytes on disk that wait for the collector; None without a spool."""
        return self._bytes[BatchOnDisk] if self._spool else None

    @property
    def records_in_memory(self) -> int:
        """Waiting records that are lost when this process ends."""
        return self._records[BatchInMemory]

    @property
    def records_on_disk(self) -> int:
        """Waiting records that this process or a later one will send."""
        return self._records[BatchOnDisk]

    def open(self) -> None:
        """Take over the batches that dead processes of the run have left in the spool; they are sent first."""
        if self._spool is None:
            return
        try:
            inherited = self._spool.claim(self._warn_unread)
        except (OSError, ImportError) as error:
            self._warn_unread(error)
            return
        for batch in inherited:
            self._add(batch)
        self._drop_excess()

    def append(self, body: bytes, records: int) -> None:
        """Append an encoded batch that holds this many records."""
        self._add(self._store(body, records))
        self._drop_excess()

    def peek(self) -> WaitingBatch | None:
        """Return the oldest batch without removing it; None where nothing waits."""
        with self._lock:
            return self._waiting[0] if self._waiting else None

    def remove(self, batch: WaitingBatch) -> bool:
        """Remove a batch; return whether it was still there."""
        if not self._take(batch):
            return False
        try:
            batch.remove()
        except OSError as error:
            self._drops.warn(
                "unspooled", f"a batch that has been sent cannot be removed from disk and may be sent again: {error}"
            )
        self._release_claims()
        return True

    def leave(self, batch: WaitingBatch) -> None:
        """Take a batch out of this queue and leave it on disk, where the next process of the run finds it."""
        self._take(batch)
        self._release_claims()

    def close(self) -> None:
        """Release the spool, so that another process may send the remaining batches."""
        if self._spool:
            self._spool.close()

    def detach_after_fork(self) -> None:
        """Release the spool in a forked child, which must not hold its parent's locks."""
        if self._spool:
            self._spool.detach_after_fork()

    def _warn_unread(self, error: Exception) -> None:
        self._drops.warn(
            "unspooled", f"the spool cannot be read, and batches that it may hold are not sent yet: {error}"
        )

    def _store(self, body: bytes, records: int) -> WaitingBatch:
        if self._spool is None:
            return BatchInMemory(body, records)
        try:
            self._write_waiting(self._spool)
            return self._spool.write(body, records)
        except (OSError, ImportError) as error:
            self._drops.count(
                "unspooled", f"records are kept only in memory, because the spool fails: {error}", by=records
            )
            return BatchInMemory(body, records)

    def _write_waiting(self, spool: Spool) -> None:
        """Write the batches to disk that it did not take before; in memory they are lost when this process ends.

        The first that it does not take yet ends this, and costs no other batch its place on disk.
        """
        for batch in self.batches if self._bytes[BatchInMemory] else ():
            if isinstance(batch, BatchInMemory):
                try:
                    written = spool.write(batch.body, batch.records)
                except (OSError, ImportError):  # it was counted when it came
                    return
                # Memory has room of its own: what the disk has no room for must not be dropped.
                has_room = self._bytes[BatchOnDisk] + written.nbytes <= spool.capacity_bytes
                if not (has_room and self._replace(batch, written)):
                    written.remove()
                if not has_room:
                    return

    def _replace(self, batch: WaitingBatch, other: WaitingBatch) -> bool:
        """Put another batch in the place of one; return whether that was still there."""
        with self._lock:
            if batch not in self._waiting:
                return False
            self._waiting[self._waiting.index(batch)] = other
            self._bytes.update({type(batch): -batch.nbytes, type(other): other.nbytes})
            self._records.update({type(batch): -batch.records, type(other): other.records})
        return True

    def _add(self, batch: WaitingBatch) -> None:
        with self._lock:
            self._waiting.append(batch)
            self._bytes[type(batch)] += batch.nbytes
            self._records[type(batch)] += batch.records

    def _take(self, batch: WaitingBatch) -> bool:
        """Take a batch out of the queue; return whether it was still there."""
        with self._lock:
            if batch not in self._waiting:
                return False
            self._waiting.remove(batch)
            self._bytes[type(batch)] -= batch.nbytes
            self._records[type(batch)] -= batch.records
        return True

    def _release_claims(self) -> None:
        if self._spool and not self._waiting:
            self._spool.release_claims()
            if self._spool.has_more:
                self.open()

    def _drop_excess(self) -> None:
        for kind, limit in self._limits.items():
            while (oldest := self._find_excess(kind, limit)) is not None:
                if self.remove(oldest):
                    self._drops.count(
                        "outbox_full", "the sending queue is full; the oldest records were dropped", by=oldest.records
                    )

    def _find_excess(self, kind: type[WaitingBatch], limit: int) -> WaitingBatch | None:
        """Return the oldest batch of a kind whose batches take more bytes than allowed."""
        with self._lock:
            if self._bytes[kind] <= limit:
                return None
            return next((batch for batch in self._waiting if isinstance(batch, kind)), None)
