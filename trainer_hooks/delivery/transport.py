"""What carries a batch to the collector, and how to wait when it cannot. Knows nothing of HTTP or of records."""

import random
import time
from collections.abc import Callable
from typing import Protocol

from trainer_hooks.wire import Receipt

__all__ = ["BackingOff", "RefusedError", "Transport", "UnavailableError"]

FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 60.0
# A collector that asks for more than this is mistaken: an alert would come too late to be worth anything.
LONGEST_RETRY_AFTER_SECONDS = 300.0


class UnavailableError(Exception):
    """The batch did not arrive, or may not have; sending it again is right.

    Args:
        detail: What happened.
        retry_after_seconds: How long the collector asked us to wait.
        is_deferred: Nothing was tried, because the last failure is too recent.
    """

    def __init__(self, detail: str, *, retry_after_seconds: float = 0.0, is_deferred: bool = False) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds
        self.is_deferred = is_deferred


class RefusedError(Exception):
    """The collector will never take this batch; sending it again is useless."""


class Transport(Protocol):
    """Carries one encoded batch and brings back the receipt."""

    def send(self, body: bytes) -> Receipt:
        """Deliver a msgpack batch.

        Raises:
            UnavailableError: If it should be sent again later.
            RefusedError: If it should not.
        """


class BackingOff:
    """Wraps a transport: after a failure, stays away from it for a growing, jittered time.

    delay_n = min(60 s, 0.5 s · 2ⁿ) · u, u uniform in [0.5, 1.5]: the jitter grows with the delay, so that a
    thousand trainers do not come back at once after an outage. Where the collector asks for longer, what it asks for is
    waited for, and up to a quarter more: it asks all of them for the same. `send` never sleeps: while it stays away, it
    raises `UnavailableError` at once, and the caller keeps the batch.

    Args:
        transport: What to wrap.
        clock: Monotonic seconds.
        uniform: Draws between two bounds; a private generator unless given, because the training's own must not be
            touched, and ranks that are seeded alike must not come back alike.
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
        self._not_before = 0.0

    def send(self, body: bytes) -> Receipt:
        """Deliver a batch unless the collector is to be left alone for now."""
        wait = self._not_before - self._clock()
        if wait > 0:
            raise UnavailableError(f"the collector is left alone for {wait:.1f} s more", is_deferred=True)
        try:
            receipt = self._transport.send(body)
        except UnavailableError as error:
            delay = min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** min(self._failures, 10))
            asked = min(error.retry_after_seconds, LONGEST_RETRY_AFTER_SECONDS)
            self._failures += 1
            chosen = max(asked * self._uniform(1.0, 1.25), delay * self._uniform(0.5, 1.5))
            self._not_before = self._clock() + chosen
            raise
        self._failures = 0
        return receipt

    def try_now(self) -> None:
        """Let the next `send` go out at once: the process is about to end."""
        self._not_before = 0.0
