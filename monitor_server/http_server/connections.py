"""Bounds what connections cost: their number, the time that each may be silent, and the time that it may leave unread.

uvicorn closes a connection that is idle after an answer. It waits without limit for a first request, for the rest of a
request, and for a client that has stopped reading. The timers here end those waits. Where the most connections are
open, the one whose client has kept us waiting longest is closed for the next one: first those of which a request is
awaited, then those that leave an answer unread.
"""

import asyncio
import json
import logging
import resource
import time
from dataclasses import dataclass, field
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

__all__ = ["BoundedConnection", "ConnectionLimits", "Connections"]

log = logging.getLogger(__name__)

# The head of a request, or what else arrives without a byte of a body; browsers send at most some 16 KiB.
MAX_HEAD_BYTES: Final = 64 * 1024
# Descriptors that are no connections: the store's readers (each a database file, its log and its index), and libraries.
RESERVED_DESCRIPTORS: Final = 128
LOG_EVERY_SECONDS: Final = 60.0
# A client that reads at least so fast is never closed for being slow; slower ones use up the time that they have.
LEAST_BYTES_PER_SECOND = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The limits of all connections of one server; times in seconds.

    Attributes:
        connections: The most connections at once. Where the process may open fewer files, fewer are taken.
        idle_seconds: How long a connection may wait before it has sent the whole head of a request.
        request_seconds: How long a request may take to arrive, from its head to the end of its body.
        write_seconds: How long a client may leave unread what it was sent; reading earns time back.
        unread_bytes: How much all clients together may leave unread.
    """

    connections: int = 1000
    idle_seconds: float = 30.0
    request_seconds: float = 120.0
    write_seconds: float = 30.0
    unread_bytes: int = 256 * 1024 * 1024

    def within_descriptors(self) -> int:
        """Return the most connections that leave enough file descriptors for everything else."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return self.connections
        return max(1, min(self.connections, max(soft - RESERVED_DESCRIPTORS, soft // 4)))


@dataclass(slots=True)
class ReadingTime:
    """How long a client may still leave unread what it was sent.

    What it reads earns time back, at `LEAST_BYTES_PER_SECOND`: who reads a little before each deadline is closed too.

    Attributes:
        most: The most seconds.
        left: The seconds that are left.
    """

    most: float
    left: float
    _since: float = 0.0
    _unread: int = 0

    def pause(self, now: float, unread: int) -> float:
        """Note that bytes are unread from now on, and return how long they may be."""
        self._since, self._unread = now, unread
        return self.left

    def resume(self, now: float, unread: int) -> None:
        """Note that only so many bytes are unread by now."""
        earned = (self._unread - unread) / LEAST_BYTES_PER_SECOND
        self.left = max(0.0, min(self.most, self.left - (now - self._since) + earned))


@dataclass(slots=True)
class Connections:
    """The open connections of one server, and those whose clients have to send a request or its rest."""

    limits: ConnectionLimits
    open: "set[BoundedConnection]" = field(default_factory=set)
    awaited: "dict[BoundedConnection, None]" = field(default_factory=dict)  # the longest wait first
    unread: "dict[BoundedConnection, None]" = field(default_factory=dict)  # likewise
    given_up: int = 0
    _most: int = 0
    _refused: int = 0
    _evicted: int = 0
    _given_up_logged: int = 0
    _logged_at: float = float("-inf")

    def __post_init__(self) -> None:
        self._most = self.limits.within_descriptors()

    def admit(self, connection: "BoundedConnection") -> bool:
        """Take a connection, if necessary in place of one whose client keeps us waiting; return False if none does."""
        if len(self.open) >= self._most:
            if not self._make_room():
                self._refused += 1
                self._report()
                return False
            self._report()
        self.open.add(connection)
        return True

    def _make_room(self) -> bool:
        """Close the connection whose client keeps us waiting longest; return False if none does."""
        if self.awaited:
            longest = next(iter(self.awaited))
            self.discard(longest)
            longest.transport.close()
            self._evicted += 1
        elif self.unread:
            longest = next(iter(self.unread))
            self.discard(longest)
            longest.abandon()
            self.given_up += 1
        else:
            return False
        return True

    def await_request(self, connection: "BoundedConnection") -> None:
        """Note that a client has to send a request, or the rest of one."""
        if connection in self.open:
            self.awaited.pop(connection, None)
            self.awaited[connection] = None

    def has_request(self, connection: "BoundedConnection") -> None:
        """Note that a client's request is complete."""
        self.awaited.pop(connection, None)

    def await_reading(self, connection: "BoundedConnection") -> None:
        """Note that a client leaves an answer unread; where all have too much, give up who has waited longest."""
        self.unread.setdefault(connection)
        while sum(one.transport.get_write_buffer_size() for one in self.unread) > self.limits.unread_bytes:
            longest = next(iter(self.unread))
            del self.unread[longest]
            longest.abandon()
            self.given_up += 1
            self._report()

    def has_read(self, connection: "BoundedConnection") -> None:
        """Note that a client has read what it was sent."""
        self.unread.pop(connection, None)

    def discard(self, connection: "BoundedConnection") -> None:
        """Forget a connection that is closed."""
        self.open.discard(connection)
        self.awaited.pop(connection, None)
        self.unread.pop(connection, None)

    def _report(self) -> None:
        now = time.monotonic()
        if now - self._logged_at < LOG_EVERY_SECONDS:
            return
        self._logged_at = now
        log.warning(
            "%d connections are open; since the last such line %d silent ones were closed for new ones, %d new ones "
            "were refused, and %d were closed that left too much unread; raise RLVITALS_MAX_CONNECTIONS, the limit of "
            "open files (ulimit -n) or RLVITALS_MAX_UNREAD_BYTES",
            len(self.open),
            self._evicted,
            self._refused,
            self.given_up - self._given_up_logged,
        )
        self._refused = self._evicted = 0
        self._given_up_logged = self.given_up


class BoundedConfig(uvicorn.Config):
    """uvicorn's configuration, with the connections that every protocol of the server shares."""

    connections: Connections


class BoundedConnection(HttpToolsProtocol):
    """One connection of uvicorn, with limits on its silence, its head and its unread bytes."""

    def __init__(
        self,
        config: BoundedConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._all = config.connections
        self._limits = config.connections.limits
        self._arrival: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._answered: RequestResponseCycle | None = None
        self._reading = ReadingTime(self._limits.write_seconds, self._limits.write_seconds)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or refuse it where there are too many."""
        super().connection_made(transport)
        if not self._all.admit(self):
            transport.write(_response(503, "Unavailable", "too many connections are open; try again later"))
            transport.close()
            return
        self._all.await_request(self)
        self._expect(self._limits.idle_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection and its timers."""
        self._all.discard(self)
        self._disconnect()
        for timer in (self._arrival, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived, unless a head without end is sent."""
        if self.transport.is_closing():
            return
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.transport.write(_response(431, "HeadTooLarge", f"a head must have at most {MAX_HEAD_BYTES} bytes"))
            self.transport.close()

    def on_headers_complete(self) -> None:
        """Begin to wait for the body."""
        self._head_bytes = 0
        self._expect(self._limits.request_seconds)
        super().on_headers_complete()
        if not self.pipeline:
            self._answered = self.cycle

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop waiting for the client: it is our turn, unless we have answered before it had finished."""
        self._head_bytes = 0
        super().on_message_complete()
        if self.cycle is not None and self.cycle.response_complete:
            self._await_request()
            return
        self._all.has_request(self)
        if self._arrival is not None:
            self._arrival.cancel()

    def on_response_complete(self) -> None:
        """Wait for the next request of a connection that is kept alive."""
        following = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        self._answered = following
        if following is None and not self.transport.is_closing():
            self._await_request()

    def pause_writing(self) -> None:
        """Start the timer of a client that does not read."""
        super().pause_writing()
        if self._unread is not None:
            self._unread.cancel()
        seconds = self._reading.pause(self.loop.time(), self.transport.get_write_buffer_size())
        self._unread = self.loop.call_later(seconds, self.abandon)
        self._all.await_reading(self)

    def abandon(self) -> None:
        """Close the connection at once; what the application still sends of its answer is dropped without an error."""
        self._disconnect()
        self.transport.abort()

    def resume_writing(self) -> None:
        """Stop that timer."""
        super().resume_writing()
        self._reading.resume(self.loop.time(), self.transport.get_write_buffer_size())
        self._all.has_read(self)
        if self._unread is not None:
            self._unread.cancel()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP in the one shape of errors."""
        self.transport.write(_response(400, "MalformedRequest", msg.rstrip(".").lower()))
        self.transport.close()

    def _disconnect(self) -> None:
        """End the answer that is under way; uvicorn ends that of the request that came last, which may still wait."""
        self.pipeline.clear()
        if self._answered is not None:
            self._answered.disconnected = True
            self._answered.message_event.set()
        self.flow.resume_writing()  # the application may wait for the client to read

    def _await_request(self) -> None:
        self._all.await_request(self)
        self._expect(self._limits.idle_seconds)

    def _expect(self, seconds: float) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
        self._arrival = self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


def _response(status: int, error: str, detail: str) -> bytes:
    phrases = {400: "Bad Request", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}
    body = json.dumps({"error": error, "detail": detail}).encode()
    head = (
        f"HTTP/1.1 {status} {phrases[status]}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        f"connection: close\r\n{'retry-after: 1' if status == 503 else 'x-content-type-options: nosniff'}\r\n\r\n"  # noqa: PLR2004
    )
    return head.encode() + body
