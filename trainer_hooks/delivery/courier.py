"""The thread that takes what was handed over, packs it, seals it in batches and puts them in the outbox.

The training thread only appends to a bounded buffer and never wakes this thread, which packs every 0.85 s: a
consumer woken on every put costs the producer its tail latency. Sending is the `Sender`'s, in a thread of its own, so
that a slow collector does not keep records from reaching the disk. What packing and sealing mean is the caller's.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from trainer_hooks.delivery.outbox import Outbox
from trainer_hooks.delivery.sender import Correspondent, Sender
from trainer_hooks.delivery.tally import Tally
from trainer_hooks.delivery.transport import Transport

__all__ = ["Courier", "Packed", "Shipper"]

# From one packing to the end of the next, if that takes as long. What is left of the second that a kill may cost is for
# a machine that is late. Shorter would cost more: each time, our code and data have to be brought back into the
# processor's caches, which takes longer than packing one more step.
DRAIN_INTERVAL_SECONDS = 0.85
# Steps of a few milliseconds are packed sooner, while what they hold is still in the processor's caches.
SHORT_INTERVAL_SECONDS = 0.5
MANY_RECORDS = 64
# How long what is packed may be kept from the disk by what is still to be packed.
PACKING_SECONDS = 0.2
BUFFER_RECORDS = 4096
# What may wait while the thread packs: 120 steps of 64 × 512 × 4 tokens.
BUFFER_BYTES = 64 << 20
BATCH_RECORDS = 200
BATCH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Packed:
    """One encoded record, the attempt that it belongs to, and the schema version that it takes to read it."""

    attempt: int
    body: bytes
    schema_version: int = 1


Item = TypeVar("Item")
Item_contra = TypeVar("Item_contra", contravariant=True)


class Shipper(Correspondent, Protocol[Item_contra]):
    """What the courier asks of its owner; these two are called in the courier's thread, the others in the sender's."""

    def pack(self, item: Item_contra) -> Packed:
        """Encode one item as a record."""

    def seal(self, records: Sequence[Packed], *, last: bool = False) -> bytes:
        """Put records of one attempt into an encoded batch; the last has none, and says how the run ended."""


class Courier(Generic[Item]):
    """Delivers what it is handed, at least once.

    Args:
        shipper: Packs, seals and receives.
        transport: Carries batches; without one they stay in the outbox's spool.
        outbox: Keeps batches until they are answered for.
        tally: Counts what is lost.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        shipper: Shipper[Item],
        transport: Transport | None,
        outbox: Outbox,
        tally: Tally,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shipper = shipper
        self._outbox = outbox
        self._tally = tally
        self._clock = clock
        self._sender = Sender(shipper, transport, outbox, tally, clock=clock) if transport else None
        self._buffer: deque[tuple[Item, int]] = deque()
        # One side writes the first, the other the second, so that neither needs a lock. Where two threads log at once,
        # what one of them adds may be lost, until the buffer is empty.
        self._bytes_in = 0
        self._bytes_out = 0
        # Records that this thread has taken from the buffer and not stored yet.
        self._in_hand = 0
        self._wake = threading.Event()
        self._is_closing = False
        self._flushes: deque[threading.Event] = deque()
        self._thread = threading.Thread(target=self._run, name="rlvitals-courier", daemon=True)

    def start(self) -> None:
        """Start the threads."""
        self._thread.start()

    def hand_over(self, item: Item, nbytes: int) -> None:
        """Take an item that holds about this much memory, or count it as lost where the buffer is full; never waits."""
        if self._is_closing:
            self._tally.count("unsent", "a step was logged after close")
        # A step alone is taken whatever its size.
        elif self._buffer and (
            len(self._buffer) >= BUFFER_RECORDS or self._bytes_in - self._bytes_out + nbytes > BUFFER_BYTES
        ):
            self._tally.count("buffer_full", "steps come faster than they can be packed; the newest was lost")
        else:
            self._bytes_in += nbytes
            self._buffer.append((item, nbytes))

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until everything handed over so far has been answered for, or spooled where nothing is sent.

        Returns:
            Whether it was in time.
        """
        if not self._is_closing:
            done = threading.Event()
            self._flushes.append(done)
            self._wake.set()
            if not done.wait(timeout_seconds):
                return False
            if self._sender:
                return True
        return not self._buffer and not (self._outbox.oldest() if self._sender else self._outbox.records_in_memory)

    def close(self, timeout_seconds: float) -> None:
        """Deliver what is left, for at most this long, and end the threads."""
        if self._is_closing:
            return
        deadline = self._clock() + timeout_seconds
        if self._sender:
            self._sender.expect(deadline)
        self._is_closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)
        if self._sender:
            if self._sender.is_current:
                return  # on_alert has closed the monitor: this thread goes on to deliver what is left
            self._sender.join(max(0.0, deadline - self._clock()))
        self._account_for_what_is_left()

    def disown(self) -> None:
        """Forget the spool in a forked child."""
        self._outbox.disown()

    def _account_for_what_is_left(self) -> None:
        lost = self._outbox.records_in_memory + len(self._buffer) + self._in_hand
        if lost:
            self._tally.count("unsent", "the process ended before they were on disk or answered for", by=lost)
        if self._sender and self._outbox.records_on_disk:
            self._tally.note(
                "spooled",
                f"{self._outbox.records_on_disk} records wait on disk; the next start of this run sends them, "
                "and so does `python -m trainer_hooks.sync`",
            )

    def _run(self) -> None:
        if self._sender:
            self._outbox.open()
            self._sender.start()
        while not self._is_closing:
            self._wake.wait(self._work())
            self._wake.clear()
        self._work()
        self._store([], last=True)
        if self._sender:
            self._sender.finish()
        else:
            self._outbox.close()

    def _work(self) -> float:
        """Pack all that was handed over, pass on who waits for it, and give the seconds until the next time."""
        flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
        began = self._clock()
        packed = self._pack()
        left = DRAIN_INTERVAL_SECONDS - (self._clock() - began)
        if self._sender:
            if packed or flushes:
                self._sender.nudge(*flushes)
        else:
            for flush in flushes:
                flush.set()
        return max(left, SHORT_INTERVAL_SECONDS) if packed < MANY_RECORDS else SHORT_INTERVAL_SECONDS

    def _pack(self) -> int:
        """Pack and store what waits; say how much that was."""
        packed = 0
        batch: list[Packed] = []
        size = 0
        began = self._clock()
        while self._buffer:
            self._in_hand += 1
            item, nbytes = self._buffer.popleft()
            packed += 1
            self._bytes_out += nbytes
            try:
                record = self._shipper.pack(item)
            except Exception as error:  # noqa: BLE001 - nothing may end this thread, and the loss is counted
                self._in_hand -= 1
                self._tally.swallow(error, lost="unpacked")
                continue
            size += len(record.body)
            is_full = len(batch) == BATCH_RECORDS or size > BATCH_BYTES
            # Packing token arrays takes a while; what is ready goes to the disk meanwhile.
            is_old = self._clock() - began >= PACKING_SECONDS
            if batch and (is_full or is_old or record.attempt != batch[0].attempt):
                self._store(batch)
                batch, size, began = [], len(record.body), self._clock()
            batch.append(record)
        self._bytes_out = self._bytes_in
        if batch:
            self._store(batch)
        return packed

    def _store(self, records: Sequence[Packed], *, last: bool = False) -> None:
        try:
            self._outbox.append(self._shipper.seal(records, last=last), len(records))
        except Exception as error:  # noqa: BLE001 - nothing may end this thread, and the loss is counted
            self._tally.swallow(error, lost="unpacked", by=len(records))
        self._in_hand -= len(records)
