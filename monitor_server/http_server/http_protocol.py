"""uvicorn's HTTP protocol with limits on a connection's silence, heads, waiting requests and answers.

uvicorn closes a connection that is idle after an answer. It waits without limit for a first request, for the rest of a
request, and for a client that has stopped reading. The timers here end those waits. uvicorn also accepts every request
that a client sends before the first is answered, and a request of a hundred bytes takes some kilobytes of memory.
"""

import asyncio
import ipaddress
import json
from http import HTTPStatus
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from monitor_server.http_server.connections import Connections, ReadingTime

__all__ = ["BoundedConfig", "BoundedHttpProtocol"]

# The head of a request, or other data that arrives without a byte of a body; browsers send at most about 16 KiB.
MAX_HEAD_BYTES: Final = 64 * 1024
# Requests of one connection that wait for an earlier answer; browsers and proxies send none before it.
MAX_WAITING_REQUESTS: Final = 16


class BoundedConfig(uvicorn.Config):
    """uvicorn's configuration, with the connections that all protocols of the server share."""

    connections: Connections


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection of uvicorn, with limits on its silence, its heads, its waiting requests and its unread bytes."""

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
        self._is_in_head = False
        self._ignores_more = False
        self._answered: RequestResponseCycle | None = None
        self._reading = ReadingTime(self._limits.write_seconds, self._limits.write_seconds)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, or refuse it if there are too many."""
        super().connection_made(transport)
        if self.client is not None:
            self.client = (_plain_address(self.client[0]), self.client[1])
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
        """Parse the data that has arrived, unless the head of a request is too long."""
        if self.transport.is_closing() or self._ignores_more:
            return
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(_response(431, "HeadTooLarge", f"a head must have at most {MAX_HEAD_BYTES} bytes"))

    def on_message_begin(self) -> None:
        """Begin a head; if too many requests wait, they are answered, and no more data is read."""
        if self._ignores_more:
            return
        if len(self.pipeline) >= MAX_WAITING_REQUESTS:
            self._ignore_more()
            return
        self._is_in_head = True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Add a part of the address."""
        if not self._ignores_more:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; a field after a body in chunks is ignored.

        A proxy that removes its own header for user names from its clients' requests may pass on such a trailer.
        """
        if self._is_in_head and not self._ignores_more:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to wait for the body."""
        if self._ignores_more:
            return
        self._head_bytes = 0
        self._is_in_head = False
        self._expect(self._limits.request_seconds)
        super().on_headers_complete()
        if not self.pipeline:
            self._answered = self.cycle

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        if self._ignores_more:
            return
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop waiting for the client, because the server must answer; wait again if it already has."""
        if self._ignores_more:
            return
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
        if self.transport.is_closing():
            self._await_reading()
        elif following is None:
            self._await_request()
        elif following.more_body:
            self._all.await_request(self)  # its own timer runs since its head

    def pause_writing(self) -> None:
        """Start the timer of a client that does not read."""
        super().pause_writing()
        if self._unread is not None:
            self._unread.cancel()
        seconds = self._reading.pause(self.loop.time(), self.transport.get_write_buffer_size())
        self._unread = self.loop.call_later(seconds, self.abandon)
        self._all.await_reading(self)

    def abandon(self) -> None:
        """Close the connection at once; further data of the application's answer is dropped without an error."""
        self._disconnect()
        self.transport.abort()

    def resume_writing(self) -> None:
        """Stop the timer of `pause_writing`."""
        super().resume_writing()
        self._reading.resume(self.loop.time(), self.transport.get_write_buffer_size())
        self._all.has_read(self)
        if self._unread is not None:
            self._unread.cancel()

    def send_400_response(self, msg: str) -> None:
        """Answer data that is not HTTP in the common shape of errors."""
        if not self._ignores_more:
            self._refuse(_response(400, "MalformedRequest", msg.rstrip(".").lower()))

    def _refuse(self, answer: bytes) -> None:
        """Answer data that are no request, and close; complete requests before it are answered instead."""
        waiting = self.pipeline
        if self._answered is not None and waiting and waiting[0][0] is self.cycle and self.cycle.more_body:
            waiting.popleft()  # the damaged part is its body
            self.cycle = waiting[0][0] if waiting else self._answered
            if self._arrival is not None:
                self._arrival.cancel()
        if self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body:
            self._ignore_more()
            return
        self.transport.write(answer)
        self.transport.close()
        self._await_reading()

    def _ignore_more(self) -> None:
        """Read no more requests, and close the connection after the answer to the newest one."""
        self._ignores_more = True
        self.cycle.keep_alive = False

    def _disconnect(self) -> None:
        """End the current answer; uvicorn ends that of the last request, which may still wait."""
        self.pipeline.clear()
        if self._answered is not None:
            self._answered.disconnected = True
            self._answered.message_event.set()
        self.flow.resume_writing()  # the application may wait for the client to read

    def _await_request(self) -> None:
        self._all.await_request(self)
        self._expect(self._limits.idle_seconds)

    def _await_reading(self) -> None:
        """Limit the time in which the client of a closing connection reads the rest; asyncio would wait without end."""
        if self.transport.get_write_buffer_size():
            self._all.await_reading(self)
            self._expect(self._limits.write_seconds)

    def _expect(self, seconds: float) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
        self._arrival = self.loop.call_later(seconds, self.abandon)


def _plain_address(address: str) -> str:
    """Return the address of a client; a socket on ``::`` names an IPv4 client by an IPv6 address that contains its own.

    Networks of trusted proxies and limits by address compare the client's own address.
    """
    try:
        mapped = ipaddress.IPv6Address(address).ipv4_mapped
    except ValueError:  # an IPv4 address, or no address
        return address
    return address if mapped is None else str(mapped)


def _response(status: int, error: str, detail: str) -> bytes:
    phrases = {400: "Bad Request", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}
    body = json.dumps({"error": error, "detail": detail}).encode()
    again = "retry-after: 1\r\n" if status == HTTPStatus.SERVICE_UNAVAILABLE else ""
    head = (
        f"HTTP/1.1 {status} {phrases[status]}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        f"connection: close\r\n{again}x-content-type-options: nosniff\r\n\r\n"
    )
    return head.encode() + body
