"""The thread that talks to the collector: sends what waits in the outbox, and a sign of life when nothing does."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from trainer_hooks.delivery.outbox import Outbox, Waiting
from trainer_hooks.delivery.tally import Tally
from trainer_hooks.delivery.transport import RefusedError, Transport, UnavailableError
from trainer_hooks.wire import Receipt

__all__ = ["Correspondent", "Sender"]

# A collector that hears nothing for longer can tell a lost trainer from a slow step.
HEARTBEAT_SECONDS = 15.0
# Between two tries while the collector is away; the transport's own backing off says when one is made.
RETRY_SECONDS = 0.25


class Correspondent(Protocol):
    """What the sender asks of its owner; called in the sender's thread only."""

    def sign_of_life(self, *, is_first: bool) -> bytes:
        """Give an encoded batch without records; the first one that is answered introduces the run."""

    def receive(self, receipt: Receipt, body: bytes) -> None:
        """Take note of the collector's answer to an encoded batch."""


class Sender:
    """Delivers an outbox, at least once.

    Args:
        correspondent: Receives.
        transport: Carries batches; does not sleep.
        outbox: Keeps batches until they are answered for.
        tally: Counts what is lost.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        correspondent: Correspondent,
        transport: Transport,
        outbox: Outbox,
        tally: Tally,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._correspondent = correspondent
        self._transport = transport
        self._outbox = outbox
        self._tally = tally
        self._clock = clock
        self._wake = threading.Event()
        self._finishing = threading.Event()
        self._flushes: deque[threading.Event] = deque()
        self._heard = -math.inf
        self._is_introduced = False
        self._deadline = math.inf
        self._thread = threading.Thread(target=self._run, name="rlvitals-sender", daemon=True)

    def start(self) -> None:
        """Start the thread, which says hello to the collector at once unless something waits."""
        self._thread.start()

    def nudge(self, *flushes: threading.Event) -> None:
        """Have it look now; the events are set once everything that waits has been answered for."""
        self._flushes.extend(flushes)
        self._wake.set()

    def expect(self, deadline: float) -> None:
        """Set the clock's time at which to give up."""
        self._deadline = deadline

    def finish(self) -> None:
        """Nothing more will come: let the thread end when all is delivered, or at the deadline."""
        self._finishing.set()
        self._wake.set()

    @property
    def is_current(self) -> bool:
        """Whether this is called from within the thread."""
        return self._thread is threading.current_thread()

    def join(self, timeout_seconds: float) -> None:
        """Wait for the thread's end, for at most this long."""
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while not self._finishing.is_set():
            is_done = self._deliver() and self._outbox.oldest() is None
            # Waking for nothing takes the interpreter from the training.
            self._wake.wait(max(RETRY_SECONDS, self._quiet_seconds()) if is_done else RETRY_SECONDS)
            self._wake.clear()
        while not self._deliver() and self._clock() < self._deadline:
            self._wake.wait(RETRY_SECONDS)
            self._wake.clear()
        self._outbox.close()

    def _deliver(self) -> bool:
        """Send until nothing waits or the collector is away; say whether nothing waits."""
        flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
        try:
            while (batch := self._outbox.oldest()) is not None and self._clock() < self._deadline:
                self._send(batch)
            is_silent = self._quiet_seconds() <= 0
            if (is_silent or not self._is_introduced) and not self._finishing.is_set():
                self._post(self._correspondent.sign_of_life(is_first=not self._is_introduced))
                self._is_introduced = True
        except UnavailableError as error:
            if not error.is_deferred:
                self._tally.note("unavailable", str(error))
            self._flushes.extendleft(flushes)
            return False
        except Exception as error:  # noqa: BLE001 - nothing may end this thread
            self._tally.swallow(error)
            if self._outbox.oldest() is not None:
                self._flushes.extendleft(flushes)
                return False
        for flush in flushes:
            flush.set()
        return True

    def _quiet_seconds(self) -> float:
        """How long until the collector should be given a sign of life."""
        return self._heard + HEARTBEAT_SECONDS - self._clock()

    def _send(self, batch: Waiting) -> None:
        """Send one batch, and take it out of the outbox unless the collector is away.

        Raises:
            UnavailableError: If it should be sent again later.
        """
        try:
            body = batch.read()
        except OSError as error:
            # One that gave way meanwhile has been counted; another was taken from the disk by somebody else.
            if self._outbox.discard(batch):
                self._tally.count("unreadable", f"a batch is gone from the spool: {error}", by=batch.records)
            return
        self._post(body, batch)

    def _post(self, body: bytes, batch: Waiting | None = None) -> None:
        """Send a body, take its batch out of the outbox once there is an answer, and take note of that."""
        try:
            receipt = self._transport.send(body)
        except RefusedError as error:
            self._heard = self._clock()
            if batch is None:
                self._tally.note("refused_hello", f"a sign of life was refused: {error}")
            elif self._outbox.discard(batch):
                self._tally.count("refused", str(error), by=batch.records)
            return
        self._heard = self._clock()
        if batch is not None:
            self._outbox.discard(batch)
        for rejection in receipt.rejected:
            self._tally.count("rejected", f"the collector refused a record: {rejection.error}: {rejection.detail}")
        self._correspondent.receive(receipt, body)
