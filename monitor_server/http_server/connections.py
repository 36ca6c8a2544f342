"""Bounds what all connections of a server cost together: their number, and what they may leave unread.

Where the most connections are open, the one whose client has kept us waiting longest is closed for the next one: first
those of which a request is awaited, then those that leave an answer unread.
"""

import asyncio
import logging
import resource
import time
from dataclasses import dataclass, field
from typing import Final, Protocol

__all__ = ["ConnectionLimits", "Connections", "OpenConnection", "ReadingTime"]

log = logging.getLogger(__name__)

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


class OpenConnection(Protocol):
    """A connection as the server holds it."""

    transport: asyncio.Transport

    def abandon(self) -> None:
        """Close the connection at once."""


@dataclass(slots=True)
class Connections:
    """The open connections of one server, and those whose clients have to send a request or its rest."""

    limits: ConnectionLimits
    open: set[OpenConnection] = field(default_factory=set)
    awaited: dict[OpenConnection, None] = field(default_factory=dict)  # the longest wait first
    unread: dict[OpenConnection, None] = field(default_factory=dict)  # likewise
    given_up: int = 0
    _most: int = 0
    _refused: int = 0
    _evicted: int = 0
    _given_up_logged: int = 0
    _logged_at: float = float("-inf")

    def __post_init__(self) -> None:
        self._most = self.limits.within_descriptors()

    def admit(self, connection: OpenConnection) -> bool:
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

    def await_request(self, connection: OpenConnection) -> None:
        """Note that a client has to send a request, or the rest of one."""
        if connection in self.open:
            self.awaited.pop(connection, None)
            self.awaited[connection] = None

    def has_request(self, connection: OpenConnection) -> None:
        """Note that a client's request is complete."""
        self.awaited.pop(connection, None)

    def await_reading(self, connection: OpenConnection) -> None:
        """Note that a client leaves an answer unread; where all have too much, give up who has waited longest."""
        self.unread.setdefault(connection)
        while sum(one.transport.get_write_buffer_size() for one in self.unread) > self.limits.unread_bytes:
            longest = next(iter(self.unread))
            del self.unread[longest]
            longest.abandon()
            self.given_up += 1
            self._report()

    def has_read(self, connection: OpenConnection) -> None:
        """Note that a client has read what it was sent."""
        self.unread.pop(connection, None)

    def discard(self, connection: OpenConnection) -> None:
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
