"""The background thread that sends encoded batches to the collector, the oldest first, and heartbeats between them."""

import errno
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from trainer_hooks.delivery.background_thread import BackgroundThread, Signal
from trainer_hooks.delivery.drop_counter import DropCounter
from trainer_hooks.delivery.sending_queue import SendingQueue, WaitingBatch
from trainer_hooks.delivery.transport import Transport, send_batch
from trainer_hooks.errors import RefusedError, UnavailableError
from trainer_hooks.wire import Receipt

__all__ = ["Exporter", "HeartbeatEncoder"]

# A trainer sends something at least this often, so the collector can distinguish a lost trainer from a slow step.
HEARTBEAT_SECONDS = 15.0
# The time between two calls of the transport while the collector is away; the backoff decides which calls send.
RETRY_SECONDS = 0.25
# Errors of a shortage that may end, of the process or of the machine. Data loaders use up descriptors.
SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})


class HeartbeatEncoder(Protocol):
    """Encodes an empty batch."""

    def __call__(self, *, is_first: bool) -> bytes:
        """Encode a batch without records; the first one that is answered introduces the run."""


class Exporter:
    """Sends the batches of a sending queue, each at least once.

    Args:
        transport: Carries batches; does not sleep.
        queue: Keeps batches until the collector has answered for them.
        drops: Counts lost records.
        encode_heartbeat: Called in this thread when there was nothing to send for `HEARTBEAT_SECONDS`.
        on_receipt: Called in this thread with each of the collector's answers and the body that it answers.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        transport: Transport,
        queue: SendingQueue,
        drops: DropCounter,
        *,
        encode_heartbeat: HeartbeatEncoder,
        on_receipt: Callable[[Receipt, bytes], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._queue = queue
        self._drops = drops
        self._encode_heartbeat = encode_heartbeat
        self._on_receipt = on_receipt
        self._clock = clock
        self._wake = Signal()
        self._is_finishing = threading.Event()
        self._flushes: deque[Signal] = deque()
        self._answered_at = -math.inf
        self._is_introduced = False
        self._deadline = math.inf
        self._thread = BackgroundThread(self._run, name="rlvitals-exporter")

    def start(self) -> None:
        """Start the thread, which sends a heartbeat at once unless a batch waits; do nothing where it has started.

        Where the process may have no more threads, the log says so, and the next call tries again.
        """
        if self._thread.ident is not None:
            return
        try:
            self._thread.start()
        except RuntimeError as error:
            self._drops.warn("thread", f"nothing is sent yet, and records wait: {error}; raise the limit of threads")

    def wake(self, *flushes: Signal) -> None:
        """Send now; the events are set once everything that waits has been answered for."""
        self._flushes.extend(flushes)
        self._wake.set()

    def set_deadline(self, deadline: float) -> None:
        """Set the clock's time at which the thread gives up."""
        self._deadline = deadline

    def finish(self) -> None:
        """Let the thread end when everything is delivered, or at the deadline; nothing more will be queued."""
        self._is_finishing.set()
        self._wake.set()

    @property
    def is_current_thread(self) -> bool:
        """Whether the caller runs in this exporter's thread."""
        return self._thread.is_current

    def wait_for_end(self, timeout_seconds: float) -> None:
        """Wait for the end of the thread, for at most this long."""
        self._thread.wait_for_end(timeout_seconds)

    def _run(self) -> None:
        while not self._is_finishing.is_set():
            is_done = self._export() and self._queue.peek() is None
            # A needless wake-up would take the interpreter lock from the training thread.
            self._wake.wait(max(RETRY_SECONDS, self._seconds_to_heartbeat()) if is_done else RETRY_SECONDS)
            self._wake.clear()
        while not self._export() and self._clock() < self._deadline:
            self._wake.wait(RETRY_SECONDS)
            self._wake.clear()
        self._queue.close()
        for flush in self._flushes:  # nobody else would end these waits
            flush.set()

    def _export(self) -> bool:
        """Send until nothing waits or the collector is away; return whether nothing waits."""
        flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
        try:
            while (batch := self._queue.peek()) is not None and self._clock() < self._deadline:
                self._send(batch)
            is_due = self._seconds_to_heartbeat() <= 0
            if (is_due or not self._is_introduced) and not self._is_finishing.is_set():
                self._post(self._encode_heartbeat(is_first=not self._is_introduced))
                self._is_introduced = True
        except UnavailableError as error:
            if not error.is_deferred:
                self._drops.warn("unavailable", str(error))
            self._flushes.extendleft(flushes)
            return False
        except BaseException as error:  # noqa: BLE001 - nothing may end this thread
            self._drops.count_error(error)
            if self._queue.peek() is not None:
                self._flushes.extendleft(flushes)
                return False
        for flush in flushes:
            flush.set()
        return True

    def _seconds_to_heartbeat(self) -> float:
        return self._answered_at + HEARTBEAT_SECONDS - self._clock()

    def _send(self, batch: WaitingBatch) -> None:
        """Send one batch and remove it from the queue, unless the collector is away.

        Raises:
            UnavailableError: If it should be sent again later.
        """
        try:
            body = batch.read()
        except (FileNotFoundError, NotADirectoryError) as error:
            # A batch that was dropped meanwhile is counted already; another one was deleted from the disk by somebody.
            if self._queue.remove(batch):
                self._drops.count("unreadable", f"a batch is gone from the spool: {error}", by=batch.records)
            return
        except OSError as error:
            if error.errno in SHORTAGES:
                self._drops.warn("unreadable", f"a batch cannot be read for now, and waits on disk: {error}")
                raise UnavailableError(str(error), is_deferred=True) from error
            self._queue.leave(batch)
            self._drops.warn(
                "unreadable",
                f"a batch cannot be read and stays on disk; the next start of this run tries again: {error}",
            )
            return
        self._post(body, batch)

    def _post(self, body: bytes, batch: WaitingBatch | None = None) -> None:
        """Send a body, remove its batch from the queue once there is an answer, and handle that answer."""
        try:
            receipt = send_batch(self._transport, body, self._warn_of_config)
        except RefusedError as error:
            self._answered_at = self._clock()
            if batch is None:
                self._drops.warn("refused_heartbeat", f"the collector refused a heartbeat: {error}")
            elif self._queue.remove(batch):
                self._drops.count("refused", str(error), by=batch.records)
            return
        self._answered_at = self._clock()
        if batch is not None:
            self._queue.remove(batch)
        for rejection in receipt.rejected:
            self._drops.count("rejected", f"the collector refused a record: {rejection.error}: {rejection.detail}")
        if receipt.refused_responses:
            self._drops.count(
                "responses", "the collector refused sampled responses; its log says why", by=receipt.refused_responses
            )
        if receipt.left_out is not None:
            self._drops.count(
                "scalars",
                f"the collector stores this run without some of its signals: {receipt.left_out.detail}; "
                "hooks/rejected_scalars counts them",
                by=receipt.left_out.signals,
                once="left_out",
            )
        self._on_receipt(receipt, body)

    def _warn_of_config(self, refusal: RefusedError) -> None:
        self._drops.warn(
            "config", f"a batch with the configuration was refused and is sent without it: {refusal}", once=True
        )
