"""Limits the cost of all connections of a server together: their number, and their unread bytes.

When the largest number of connections is open, a new one replaces the one whose client has kept the server waiting
longest: first connections that wait for a request, then connections with an unread answer.
"""

import asyncio
import logging
import resource
import time
from dataclasses import dataclass, field
from typing import Final, Protocol

__all__ = ["ConnectionLimits", "Connections", "OpenConnection", "ReadingTime"]

log = logging.getLogger(__name__)

# Descriptors other than connections: the store's readers (each a database file, its log and its index), and libraries.
RESERVED_DESCRIPTORS: Final = 128
LOG_EVERY_SECONDS: Final = 60.0
# A client that reads at this rate or faster is never closed for being slow; slower ones use up their time.
LEAST_BYTES_PER_SECOND = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The limits of all connections of one server; times in seconds.

    Attributes:
        connections: The largest number of connections. If the process may open fewer files, the number is lower.
        idle_seconds: The longest wait for the whole head of a request.
        request_seconds: The longest time for a request to arrive, from its head to the end of its body.
        write_seconds: The longest time for which a client may leave its answer unread; reading extends the time.
        unread_bytes: The largest number of unread bytes of all clients together.
    """

    connections: int = 1000
    idle_seconds: float = 30.0
    request_seconds: float = 120.0
    write_seconds: float = 30.0
    unread_bytes: int = 256 * 1024 * 1024

    def within_descriptors(self) -> int:
        """Return the number of connections for which enough file descriptors remain for everything else."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return self.connections
        return max(1, min(self.connections, max(soft - RESERVED_DESCRIPTORS, soft // 4)))


@dataclass(slots=True)
class ReadingTime:
    """The remaining time for which a client may leave its answer unread.

    Reading extends the time, at `LEAST_BYTES_PER_SECOND`. So a client that reads only a little before each deadline is
    closed as well.

    Attributes:
        most: The largest number of seconds.
        left: The remaining seconds.
    """

    most: float
    left: float
    _since: float = 0.0
    _unread: int = 0

    def pause(self, now: float, unread: int) -> float:
        """Note that bytes are unread from now on, and return the time for which they may be."""
        self._since, self._unread = now, unread
        return self.left

    def resume(self, now: float, unread: int) -> None:
        """Note that the number of unread bytes has fallen to ``unread``."""
        earned = (self._unread - unread) / LEAST_BYTES_PER_SECOND
        self.left = max(0.0, min(self.most, self.left - (now - self._since) + earned))


class OpenConnection(Protocol):
    """A connection in the form that the server keeps."""

    transport: asyncio.Transport

    def abandon(self) -> None:
        """Close the connection at once."""


@dataclass(slots=True)
class Connections:
    """The open connections of one server, and those whose clients must send a request or the rest of one."""

    limits: ConnectionLimits
    open: set[OpenConnection] = field(default_factory=set)
    awaited: dict[OpenConnection, None] = field(default_factory=dict)  # the longest wait first
    unread: dict[OpenConnection, None] = field(default_factory=dict)  # the longest wait first
    given_up: int = 0
    unread_bytes: int = 0  # of all clients, when one of them last began or ended to leave its answer unread
    _most: int = 0
    _refused: int = 0
    _evicted: int = 0
    _given_up_logged: int = 0
    _logged_at: float = float("-inf")

    def __post_init__(self) -> None:
        self._most = self.limits.within_descriptors()

    def admit(self, connection: OpenConnection) -> bool:
        """Accept a connection, if necessary in place of one whose client is slow; return False if there is none."""
        if len(self.open) >= self._most:
            if not self._make_room():
                self._refused += 1
                self._report()
                return False
            self._report()
        self.open.add(connection)
        return True

    def _make_room(self) -> bool:
        """Close the connection whose client has kept the server waiting longest; return False if there is none."""
        if self.awaited:
            longest = next(iter(self.awaited))
            self._evicted += 1
        elif self.unread:
            longest = next(iter(self.unread))
            self.given_up += 1
        else:
            return False
        self.discard(longest)
        longest.abandon()
        return True

    def await_request(self, connection: OpenConnection) -> None:
        """Note that a client must send a request, or the rest of one."""
        if connection in self.open:
            self.awaited.pop(connection, None)
            self.awaited[connection] = None

    def has_request(self, connection: OpenConnection) -> None:
        """Note that a client's request is complete."""
        self.awaited.pop(connection, None)

    def await_reading(self, connection: OpenConnection) -> None:
        """Note that a client leaves an answer unread; if the total is too large, close the one waiting longest."""
        self.unread.setdefault(connection)
        while self._measure() > self.limits.unread_bytes:
            longest = next(iter(self.unread))
            del self.unread[longest]
            longest.abandon()
            self.given_up += 1
            self._report()

    def has_read(self, connection: OpenConnection) -> None:
        """Note that a client has read its answer."""
        if connection in self.unread:
            del self.unread[connection]
            self._measure()

    def discard(self, connection: OpenConnection) -> None:
        """Forget a connection that is closed."""
        self.open.discard(connection)
        self.awaited.pop(connection, None)
        self.has_read(connection)

    def _measure(self) -> int:
        self.unread_bytes = sum(one.transport.get_write_buffer_size() for one in self.unread)
        return self.unread_bytes

    def _report(self) -> None:
        now = time.monotonic()
        if now - self._logged_at < LOG_EVERY_SECONDS:
            return
        self._logged_at = now
        log.warning(
            "%d connections are open; since the last such line %d silent ones were closed for new ones, %d new ones "
            "were refused, and %d were closed because their clients left too much unread; raise "
            "RLVITALS_MAX_CONNECTIONS, the limit of open files (ulimit -n) or RLVITALS_MAX_UNREAD_BYTES",
            len(self.open),
            self._evicted,
            self._refused,
            self.given_up - self._given_up_logged,
        )
        self._refused = self._evicted = 0
        self._given_up_logged = self.given_up
