"""The interface of a transport, which carries a batch to the collector, and what is done where it fails or refuses."""

import random
import time
from collections.abc import Callable
from typing import Protocol

from trainer_hooks.errors import RefusedError, UnavailableError
from trainer_hooks.wire import Receipt, without_config

__all__ = ["BackoffTransport", "Transport", "send_batch"]

FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 60.0
# A longer delay is not respected, because an alert would arrive too late to be of use.
LONGEST_RETRY_AFTER_SECONDS = 300.0


class Transport(Protocol):
    """Carries one encoded batch and returns the receipt."""

    def send(self, body: bytes) -> Receipt:
        """Deliver a msgpack batch.

        Raises:
            UnavailableError: If it should be sent again later.
            RefusedError: If it should not.
        """


class BackoffTransport:
    """Wraps a transport and does not use it for a growing, jittered time after each failure.

    delay_n = min(60 s, 0.5 s · 2ⁿ) · u, u uniform in [0.5, 1.5]. The jitter grows with the delay, so that a thousand
    trainers do not all return at the same moment after an outage. Where the collector asks for a longer delay, this
    waits for that and up to a quarter more, because the collector asks all trainers for the same delay. `send` never
    sleeps: during the delay it raises `UnavailableError` at once, and the caller keeps the batch.

    Args:
        transport: The wrapped transport.
        clock: Monotonic seconds.
        uniform: Draws between two bounds; a private generator unless given. The training's own generator must not be
            used, and ranks that are seeded alike must not draw alike.

    Attributes:
        not_before: The clock's time before which nothing is sent.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] | None = None,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._uniform = uniform or random.Random().uniform  # noqa: S311 - jitter needs no cryptography
        self._failures = 0
        self.not_before = 0.0

    def send(self, body: bytes) -> Receipt:
        """Deliver a batch unless the delay after the last failure is not over yet.

        Raises:
            UnavailableError: If it should be sent again later; ``is_deferred`` where nothing was tried.
            RefusedError: If the collector will never accept it.
        """
        wait = self.not_before - self._clock()
        if wait > 0:
            raise UnavailableError(f"the next attempt to send is due in {wait:.1f} s", is_deferred=True)
        try:
            receipt = self._transport.send(body)
        except UnavailableError as error:
            delay = min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** min(self._failures, 10))
            requested = min(error.retry_after_seconds, LONGEST_RETRY_AFTER_SECONDS)
            self._failures += 1
            chosen = max(requested * self._uniform(1.0, 1.25), delay * self._uniform(0.5, 1.5))
            self.not_before = self._clock() + chosen
            raise
        self._failures = 0
        return receipt

    def end_delay(self) -> None:
        """Let the next `send` go out at once, because the process is about to end."""
        self.not_before = 0.0


def send_batch(transport: Transport, body: bytes, on_left_out: Callable[[RefusedError], object]) -> Receipt:
    """Deliver a msgpack batch; where it is refused with the configuration, which may be too large, send it without.

    Args:
        transport: Carries batches.
        body: The batch.
        on_left_out: Called with the refusal where the batch was accepted without the configuration.

    Raises:
        UnavailableError: If it should be sent again later.
        RefusedError: If it should not.
    """
    try:
        return transport.send(body)
    except RefusedError as error:
        shorter = without_config(body)
        if shorter is None:
            raise
        refusal = error
    receipt = transport.send(shorter)
    on_left_out(refusal)
    return receipt
