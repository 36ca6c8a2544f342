"""Messages between the collectors of one installation on PostgreSQL, by LISTEN and NOTIFY.

A notification has at most 8,000 bytes, so a longer message is sent in parts. Messages that are sent while the database
is away are lost, in both directions; `on_gap` is called once the connection is there again.
"""

import contextlib
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from monitor_server.errors import Unavailable
from monitor_server.instrumentation.failure_log import FailureLog
from monitor_server.store.installation import POSTGRES_NUMBER

__all__ = ["NotifyChannel"]

CHANNEL = "rlvitals"
PART_CHARACTERS = 7_800  # ASCII characters in a part, beside its head
MAX_PARTS = 64
# The senders whose next part is awaited; a message is complete some milliseconds after its first part.
MAX_SENDERS = 256
MAX_WAITING = 10_000
MESSAGES_PER_COMMIT = 200
RECONNECT_SECONDS = 1.0
LISTEN_SECONDS = 0.25
# A connection without messages for this time is tested.
PROBE_SECONDS = 30.0


class NotifyChannel:
    """Sends messages to all other collectors, and receives theirs, in two threads with one connection each."""

    def __init__(
        self,
        connect: Callable[[], Any],
        *,
        on_message: Callable[[str], None],
        on_gap: Callable[[], None] = lambda: None,
    ) -> None:
        """Build the sender and the receiver, which begin with `start`.

        Args:
            connect: Returns a new psycopg connection in autocommit mode.
            on_message: Called with each message of another collector, in the order in which that collector sent them.
            on_gap: Called when messages may have been lost.
        """
        self._connect = connect
        self._on_message = on_message
        self._on_gap = on_gap
        self._sender = uuid.uuid4().hex
        self._number = 0
        self._waiting: deque[Callable[[], str]] = deque()
        self._changed = threading.Condition()
        self._parts: dict[str, tuple[str, list[str]]] = {}
        self._unwritten = FailureLog(
            says="a live event is left out for the subscribers of other collectors", work="messages with live events"
        )
        self._is_stopping = threading.Event()
        self._is_listening = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(work, name), name=f"rlvitals-{name}", daemon=True)
            for work, name in ((self._send_all, "notifier"), (self._listen, "listener"))
        ]
        self.dropped = 0
        """Messages of this collector that were not sent."""

    def start(self) -> None:
        """Begin to send and to receive."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End both threads; the messages that wait are not sent."""
        self._is_stopping.set()
        with self._changed:
            self._changed.notify()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    @property
    def is_listening(self) -> bool:
        """Whether messages of other collectors arrive now."""
        return self._is_listening.is_set()

    @property
    def waiting(self) -> int:
        """The number of messages that wait to be sent, at most `MAX_WAITING`."""
        return len(self._waiting)

    @property
    def unfinished(self) -> int:
        """The number of senders whose next part is awaited, at most `MAX_SENDERS`."""
        return len(self._parts)

    def send(self, message: Callable[[], str]) -> None:
        """Queue a message of ASCII, which the sending thread computes; this never waits."""
        with self._changed:
            if len(self._waiting) >= MAX_WAITING:
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append(message)
            self._changed.notify()

    def _run(self, work: Callable[[Any, Callable[[], None]], None], name: str) -> None:
        """Run the work of a thread on a connection, and on a new connection after each failure."""
        says = f"the {name} of live events has lost its connection to the database and connects again"
        failures = FailureLog(says=says, work=f"connections of the {name}")
        while not self._is_stopping.is_set():
            connection = None
            try:
                connection = self._connect()
                work(connection, failures.note_success)
            except Exception as error:  # noqa: BLE001 - any error of the driver means that the database is away
                failures.note_failure(Unavailable(str(error)))
                self._is_stopping.wait(RECONNECT_SECONDS)
            finally:
                if connection is not None:
                    connection.close()

    def _send_all(self, connection: Any, on_success: Callable[[], None]) -> None:  # noqa: ANN401 - psycopg is an extra
        channel, used_at = _channel(connection), time.monotonic()
        while not self._is_stopping.is_set():
            with self._changed:
                while not self._waiting and not self._is_stopping.is_set():
                    self._changed.wait()
            # This finds a connection that was lost while nothing was sent, before a message is lost with it. If it is
            # lost later than this, the receivers have not connected again either, and report a gap.
            if time.monotonic() - used_at > RECONNECT_SECONDS / 2:
                connection.execute("SELECT 1")
            _require_writes(connection)
            with self._changed:
                some = [self._waiting.popleft() for _ in range(min(len(self._waiting), MESSAGES_PER_COMMIT))]
            payloads = [part for message in some for part in self._split(message)]
            try:
                with connection.transaction(), connection.cursor() as cursor:
                    cursor.executemany("SELECT pg_notify(%s, %s)", [(channel, payload) for payload in payloads])
            except Exception:
                self.dropped += len(some)
                raise
            used_at = time.monotonic()
            on_success()

    def _split(self, compute: Callable[[], str]) -> list[str]:
        """Return the notifications of a message; none if it cannot be computed, or is too long."""
        self._number += 1
        try:
            message = compute()
        except Exception as error:  # noqa: BLE001 - it is logged, and affects this message alone
            self._unwritten.note_failure(error)
            self.dropped += 1
            return []
        pieces = [message[begin : begin + PART_CHARACTERS] for begin in range(0, len(message), PART_CHARACTERS)]
        if len(pieces) > MAX_PARTS:
            self.dropped += 1
            return []
        return [f"{self._sender} {self._number} {place} {len(pieces)} {piece}" for place, piece in enumerate(pieces)]

    def _listen(self, connection: Any, on_success: Callable[[], None]) -> None:  # noqa: ANN401 - psycopg is an extra
        connection.execute(f"LISTEN {_channel(connection)}")
        self._parts.clear()
        self._on_gap()
        self._is_listening.set()
        on_success()
        probed = time.monotonic()
        try:
            while not self._is_stopping.is_set():
                for notification in connection.notifies(timeout=LISTEN_SECONDS):
                    self._receive(notification.payload)
                if time.monotonic() - probed > PROBE_SECONDS:
                    connection.execute("SELECT 1")
                    if connection.takes_no_writes and self._finds_writable():
                        return
                    probed = time.monotonic()
        finally:
            self._is_listening.clear()

    def _finds_writable(self) -> bool:
        """Return whether the address leads to a server that takes writes; until then no other one has messages."""
        with contextlib.closing(self._connect()) as connection:
            return not connection.takes_no_writes

    def _receive(self, payload: str) -> None:
        """Join the parts of a message, which arrive in order; if a part is missing, the message is dropped."""
        try:
            sender, number, place, count, piece = payload.split(" ", 4)
            if sender == self._sender or not 0 < int(count) <= MAX_PARTS:
                return
            held_number, pieces = self._parts.pop(sender, (number, []))
            pieces = [*pieces, piece] if held_number == number else [piece]
            if len(pieces) != int(place) + 1:
                return
            if len(pieces) < int(count):
                if len(self._parts) >= MAX_SENDERS:
                    self._parts.clear()
                self._parts[sender] = (number, pieces)
                return
        except ValueError:  # from a newer version, or from another program
            return
        self._on_message("".join(pieces))


def _require_writes(connection: Any) -> None:  # noqa: ANN401 - psycopg is an extra
    """Refuse a server that takes no writes: the other collectors write to another one, or soon will.

    Raises:
        Unavailable: If it takes none.
    """
    if connection.takes_no_writes:
        raise Unavailable("the server takes no writes")


def _channel(connection: Any) -> str:  # noqa: ANN401 - psycopg is an extra
    """Return the channel of a connection's installation; a notification reaches every listener of the database."""
    (number,) = connection.execute(POSTGRES_NUMBER).fetchone()
    return f"{CHANNEL}_{number}" if number else CHANNEL
