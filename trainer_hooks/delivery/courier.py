"""The daemon thread: takes what was handed over, packs it, sends it, and tells what came back.

The training thread only appends to a bounded buffer and never wakes this thread, which looks every 0.25 s: a
consumer woken on every put costs the producer its tail latency. What packing and sealing mean is the caller's.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from trainer_hooks.delivery.outbox import Outbox, Packed
from trainer_hooks.delivery.tally import Tally
from trainer_hooks.delivery.transport import RefusedError, Transport, UnavailableError
from trainer_hooks.wire import Receipt

__all__ = ["Courier", "Parcel", "Shipper"]

DRAIN_INTERVAL_SECONDS = 0.25
# A collector that hears nothing for longer can tell a lost trainer from a slow step.
HEARTBEAT_SECONDS = 15.0
BUFFER_RECORDS = 4096
# What a trainer may lose sight of while the thread waits for a slow collector: 120 steps of 64 × 512 × 4 tokens.
BUFFER_BYTES = 64 << 20
BATCH_RECORDS = 200
BATCH_BYTES = 1 << 20


class Parcel(Protocol):
    """Something handed over that knows about how much memory it holds."""

    @property
    def nbytes(self) -> int:
        """Bytes held by its arrays."""


Item = TypeVar("Item", bound=Parcel)
Packable_contra = TypeVar("Packable_contra", bound=Parcel, contravariant=True)


class Shipper(Protocol[Packable_contra]):
    """What the courier asks of its owner; called in the courier's thread only."""

    def pack(self, item: Packable_contra) -> Packed:
        """Encode one item as a record."""

    def seal(self, records: Sequence[Packed], *, last: bool) -> bytes:
        """Put records of one attempt, or none, into an encoded batch."""

    def receive(self, receipt: Receipt) -> None:
        """Take note of the collector's answer."""


class Courier(Generic[Item]):
    """Delivers what it is handed, at least once, as long as the process lives.

    Args:
        shipper: Packs, seals and receives.
        transport: Carries batches; does not sleep.
        outbox: Keeps packed records until they are answered for.
        tally: Counts what is lost.
        interval_seconds: Time between two looks at the buffer.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        shipper: Shipper[Item],
        transport: Transport,
        outbox: Outbox,
        tally: Tally,
        *,
        interval_seconds: float = DRAIN_INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shipper = shipper
        self._transport = transport
        self._outbox = outbox
        self._tally = tally
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._buffer: deque[Item] = deque()
        # One side writes the first, the other the second, so that neither needs a lock.
        self._bytes_in = 0
        self._bytes_out = 0
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._flushes: deque[threading.Event] = deque()
        self._heard = -math.inf
        self._deadline = math.inf
        self._thread = threading.Thread(target=self._run, name="rlvitals-courier", daemon=True)

    def start(self) -> None:
        """Start the thread, which says hello to the collector at once."""
        self._thread.start()

    def hand_over(self, item: Item) -> None:
        """Take an item, or count it as lost where the buffer is full; never waits."""
        if self._closing.is_set():
            self._tally.count("unsent", "a step was logged after close")
        elif len(self._buffer) >= BUFFER_RECORDS or self._bytes_in - self._bytes_out + item.nbytes > BUFFER_BYTES:
            self._tally.count("buffer_full", "steps come faster than they can be packed; the newest was lost")
        else:
            self._bytes_in += item.nbytes
            self._buffer.append(item)

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until everything handed over so far has been answered for, and say whether it was in time."""
        if not self._thread.is_alive():
            return not self._buffer and not self._outbox
        done = threading.Event()
        self._flushes.append(done)
        self._wake.set()
        return done.wait(timeout_seconds)

    def close(self, timeout_seconds: float) -> None:
        """Deliver what is left, for at most this long, and end the thread."""
        if self._closing.is_set():
            return
        self._deadline = self._clock() + timeout_seconds
        self._closing.set()
        self._wake.set()
        if self._thread is threading.current_thread():
            return  # on_alert has closed the monitor: this thread goes on to deliver what is left
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)
        left = len(self._outbox) + len(self._buffer)
        if left:
            self._tally.count("unsent", "the collector did not answer in time before the process ended", by=left)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._work(last=False)
            self._wake.wait(self._interval_seconds)
            self._wake.clear()
        while not self._work(last=True) and self._clock() < self._deadline:
            self._wake.wait(self._interval_seconds)
            self._wake.clear()

    def _work(self, *, last: bool) -> bool:
        """Pack and send until nothing is left or the collector is away; say whether nothing is left."""
        flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
        try:
            self._pack()
            while self._outbox:
                self._send(self._outbox.head(BATCH_RECORDS, BATCH_BYTES))
                self._pack()
            if last or self._clock() - self._heard >= HEARTBEAT_SECONDS:
                self._send([], last=last)
        except UnavailableError:
            self._flushes.extendleft(flushes)
            return False
        except Exception as error:  # noqa: BLE001 - nothing may end this thread, and the loss is counted
            self._tally.swallow(error)
        for flush in flushes:
            flush.set()
        return True

    def _pack(self) -> None:
        while self._buffer:
            item = self._buffer.popleft()
            self._bytes_out += item.nbytes
            self._outbox.append(self._shipper.pack(item))

    def _send(self, records: Sequence[Packed], *, last: bool = False) -> None:
        """Send one batch, and take its records out of the outbox unless the collector is away.

        Raises:
            UnavailableError: If the batch should be sent again later.
        """
        try:
            receipt = self._transport.send(self._shipper.seal(records, last=last))
        except UnavailableError as error:
            if not error.is_deferred:
                self._tally.note("unavailable", str(error))
            raise
        except RefusedError as error:
            self._tally.count("refused", str(error), by=len(records))
            receipt = None
        except Exception:
            # A batch that cannot be sealed would stand in the way of all later ones.
            self._outbox.discard(len(records))
            self._tally.count("refused", "a batch could not be encoded", by=len(records))
            raise
        self._outbox.discard(len(records))
        self._heard = self._clock()
        if receipt is not None:
            self._note_rejections(receipt)
            self._shipper.receive(receipt)

    def _note_rejections(self, receipt: Receipt) -> None:
        for rejection in receipt.rejected:
            self._tally.count("rejected", f"the collector refused a record: {rejection.error}: {rejection.detail}")
