"""The background thread that encodes records, groups them into batches and puts these into the sending queue.

It wakes every 0.85 s. The `Exporter` sends in another thread, so that a slow collector does not keep records from
reaching the disk. The encoders define the form of records and batches.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from trainer_hooks.delivery.background_thread import BackgroundThread, Signal
from trainer_hooks.delivery.drop_counter import DropCounter
from trainer_hooks.delivery.exporter import Exporter
from trainer_hooks.delivery.record_queue import RecordQueue
from trainer_hooks.delivery.sending_queue import SendingQueue
from trainer_hooks.wire import Capability

__all__ = ["BatchEncoder", "BatchProcessor", "EncodedRecord", "RecordEncoder"]

# From the start of one round to the start of the next. With encoding time and a late wake-up this stays within the one
# second of records that a kill may cost. A shorter interval would cost more: each round first brings our code and data
# back into the processor's caches, which takes longer than encoding one more step.
INTERVAL_SECONDS = 0.85
# Steps of a few milliseconds are encoded sooner, while their data are still in the processor's caches.
SHORT_INTERVAL_SECONDS = 0.5
MANY_RECORDS = 64
# Longest time for which encoded records wait in memory for the records after them to be encoded.
LONGEST_ENCODING_SECONDS = 0.2
BATCH_RECORDS = 200
BATCH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class EncodedRecord:
    """One encoded record.

    Attributes:
        attempt: The attempt that the record belongs to.
        body: The encoded record.
        schema_version: The lowest schema version that can read it.
        capability: The level of what was captured for it.
    """

    attempt: int
    body: bytes
    schema_version: int = 1
    capability: Capability = "L1"


Item = TypeVar("Item")
Item_contra = TypeVar("Item_contra", contravariant=True)


class RecordEncoder(Protocol[Item_contra]):
    """Encodes the items that the training thread has put into the queue; called in the batch processor's thread."""

    def encode(self, item: Item_contra) -> EncodedRecord:
        """Encode one item as a record."""


class BatchEncoder(Protocol):
    """Encodes batches."""

    def encode(self, records: Sequence[EncodedRecord], *, is_last: bool = False) -> bytes:
        """Encode a batch of records of one attempt; the last batch has no records and says how the run ended.

        Called in the batch processor's thread.
        """


class BatchProcessor(Generic[Item]):
    """Encodes the items of a record queue as batches and puts these into a sending queue.

    Args:
        queue: Holds the measurements of the training thread.
        sending_queue: Keeps the batches until the collector has answered for them.
        drops: Counts lost records.
        records: Encodes items.
        batches: Encodes batches.
        exporter: Sends the batches; None where they stay on disk.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        queue: RecordQueue[Item],
        sending_queue: SendingQueue,
        drops: DropCounter,
        *,
        records: RecordEncoder[Item],
        batches: BatchEncoder,
        exporter: Exporter | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue = queue
        self._sending_queue = sending_queue
        self._drops = drops
        self._records = records
        self._batches = batches
        self._exporter = exporter
        self._clock = clock
        # Records that this thread has taken from the queue and not stored yet.
        self._in_progress = 0
        self._wake = Signal()
        self._is_closing = False
        self._is_over = False
        self._deadline = math.inf
        self._sending_deadline = math.inf
        self._flushes: deque[Signal] = deque()
        self._thread = BackgroundThread(self._run, name="rlvitals-batch-processor")

    def start(self) -> None:
        """Start the threads.

        Raises:
            RuntimeError: If the process may have no more threads.
        """
        self._thread.start()

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until everything queued so far is answered for, or on disk where nothing is sent, or delivery has ended.

        Returns:
            Whether that happened within the timeout.
        """
        done = Signal()
        if not self._is_closing:
            self._flushes.append(done)
        # The last round of the thread passes on the flushes that were there when `close` began.
        if not self._is_closing:
            self._wake.set()
            if not done.wait(timeout_seconds):
                return False
            if self._exporter and not self._is_closing:
                return True
        waiting = self._sending_queue.peek() if self._exporter else self._sending_queue.records_in_memory
        return not len(self._queue) and not waiting

    def close(self, timeout_seconds: float, *, sending_seconds: float = math.inf) -> bool:
        """Send the remaining records, for at most this long, and end the threads; a later call waits no longer.

        Args:
            timeout_seconds: The longest time for everything.
            sending_seconds: The longest time in which the collector is waited for, where that is shorter.

        Returns:
            Whether that is over. It is not where a function of the user calls this in one of the threads, which then
            goes on to deliver what is left.
        """
        if self._is_over:
            return True
        if not self._is_closing:
            now = self._clock()
            self._deadline = now + timeout_seconds
            if self._exporter:
                self._sending_deadline = min(self._deadline, now + sending_seconds)
                self._exporter.set_deadline(self._sending_deadline)
            self._queue.close()
            self._is_closing = True
            self._wake.set()
        if self._thread.is_current:
            return False
        self._thread.wait_for_end(max(0.0, self._deadline - self._clock()))
        if self._exporter:
            if self._exporter.is_current_thread:
                return False
            self._exporter.wait_for_end(max(0.0, self._sending_deadline - self._clock()))
        self._is_over = True
        self._count_undelivered()
        return True

    def detach_after_fork(self) -> None:
        """Release the spool in a forked child."""
        self._sending_queue.detach_after_fork()

    def _count_undelivered(self) -> None:
        lost = self._sending_queue.records_in_memory + len(self._queue) + self._in_progress
        if lost:
            self._drops.count("unsent", "the process ended before they were on disk or acknowledged", by=lost)
        on_disk = self._sending_queue.records_on_disk
        if self._exporter and on_disk:
            self._drops.warn(
                "spooled",
                f"{on_disk} records wait on disk; the next start of this run sends them, "
                "and so does `python -m trainer_hooks.sync`",
            )

    def _run(self) -> None:
        if self._exporter:
            self._sending_queue.open()
        while not self._is_closing:
            self._wake.wait(self._process())
            self._wake.clear()
        self._process()
        self._store([], is_last=True)
        if self._exporter:
            self._exporter.finish()
        else:
            self._sending_queue.close()

    def _process(self) -> float:
        """Encode what is in the queue, pass on the flushes, and return the seconds until the next round."""
        if self._exporter:
            self._exporter.start()
        flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
        began = self._clock()
        count = self._encode_queued()
        left = INTERVAL_SECONDS - (self._clock() - began)
        if self._exporter:
            if count or flushes:
                self._exporter.wake(*flushes)
        else:
            for flush in flushes:
                flush.set()
        if left <= 0 and len(self._queue):
            return 0.0
        return max(left, SHORT_INTERVAL_SECONDS) if count < MANY_RECORDS else SHORT_INTERVAL_SECONDS

    def _encode_queued(self) -> int:
        """Encode and store the items in the queue, also later ones, but these not without an end; return how many."""
        count, first = 0, len(self._queue)
        batch: list[EncodedRecord] = []
        size = 0
        began = self._clock()
        end = began + INTERVAL_SECONDS
        while len(self._queue) and (count < first or self._clock() < end):
            # Add before the pop: another thread that counts undelivered records may count this one twice, but never
            # misses it.
            self._in_progress += 1
            item = self._queue.pop()
            count += 1
            try:
                record = self._records.encode(item)
            except BaseException as error:  # noqa: BLE001 - nothing may end this thread, and the loss is counted
                self._in_progress -= 1
                self._drops.count_error(error, lost="unpacked")
                continue
            size += len(record.body)
            is_full = len(batch) == BATCH_RECORDS or size > BATCH_BYTES
            # Encoding token arrays takes a while; records that are ready go to the disk meanwhile.
            is_old = self._clock() - began >= LONGEST_ENCODING_SECONDS
            if batch and (is_full or is_old or record.attempt != batch[0].attempt):
                self._store(batch)
                batch, size, began = [], len(record.body), self._clock()
                if self._exporter:  # the round may take longer than the exporter may wait
                    self._exporter.wake()
            batch.append(record)
        if not len(self._queue):
            self._queue.forget_size()
        if batch:
            self._store(batch)
        return count

    def _store(self, records: Sequence[EncodedRecord], *, is_last: bool = False) -> None:
        try:
            self._sending_queue.append(self._batches.encode(records, is_last=is_last), len(records))
        except BaseException as error:  # noqa: BLE001 - nothing may end this thread, and the loss is counted
            self._drops.count_error(error, lost="unpacked", by=len(records))
        self._in_progress -= len(records)
