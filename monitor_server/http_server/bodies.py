"""Limits the bodies of requests while they are read: each one, and all that are held at the same time."""

from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor_server.errors import BodyTooLarge, CollectorError, Unavailable
from monitor_server.errors.answering import refuse

__all__ = ["HeldBodies", "LimitedRequest", "too_large"]

# Each request may always hold this much, so that large bodies of others never block a small batch.
FREE_BYTES = 64 * 1024


@dataclass(slots=True)
class HeldBodies:
    """The bytes of bodies that all requests together hold, beyond `FREE_BYTES` of each.

    Attributes:
        most_bytes: The largest number of these bytes.
        held_bytes: The current number of these bytes.
    """

    most_bytes: int
    held_bytes: int = 0

    def hold(self, more: int) -> None:
        """Count bytes that have arrived.

        Raises:
            Unavailable: If there are too many.
        """
        if self.held_bytes + more > self.most_bytes:
            raise Unavailable(
                f"bodies of {self.held_bytes} bytes are being received, and {self.most_bytes} is the limit "
                "(RLVITALS_MAX_HELD_BYTES); send again later"
            )
        self.held_bytes += more

    def release(self, bytes_: int) -> None:
        """Subtract the bytes of a request that has ended."""
        self.held_bytes -= bytes_


class LimitedRequest:
    """Serves one request and stops reading its body at a limit, even if the application continues."""

    def __init__(self, app: ASGIApp, limit: int, bodies: HeldBodies) -> None:
        self._app = app
        self._limit = limit
        self._bodies = bodies
        self._read = 0
        self._held = 0
        self._refusal: CollectorError | None = None
        self._is_answered = False

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request."""

        async def receive_and_count() -> Message:
            message = await receive()
            if self._refusal is None:
                self._count(len(message.get("body", b"")))
            if self._refusal is not None:
                raise self._refusal
            return message

        async def send_unless_refused(message: Message) -> None:
            if self._refusal is not None and not self._is_answered:
                return  # the application answers the interruption; the client gets the reason instead
            self._is_answered = True
            await send(message)

        try:
            await self._app(scope, receive_and_count, send_unless_refused)
        except CollectorError as error:
            if error is not self._refusal or self._is_answered:
                raise
        finally:
            self._bodies.release(self._held)
        if self._refusal is not None and not self._is_answered:
            await refuse(self._refusal, send, scope=scope)

    def _count(self, more: int) -> None:
        self._read += more
        if self._read > self._limit:
            self._refusal = too_large(self._limit, self._read)
            return
        beyond = max(0, self._read - FREE_BYTES) - self._held
        try:
            self._bodies.hold(beyond)
        except Unavailable as error:
            self._refusal = error
        else:
            self._held += beyond


def too_large(limit: int, read: int) -> BodyTooLarge:
    """Return the error for a body of too many bytes."""
    return BodyTooLarge(f"a body must have at most {limit} bytes, got {read} or more; send less at once")
