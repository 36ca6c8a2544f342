"""Collectors that fail: real sockets without a listener, without an answer, or with a wrong answer.

Each is a context manager that yields the address.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler

from tests.http_serving import serving_requests
from tests.ports import reserved_port
from trainer_hooks.delivery.http import HttpTransport
from trainer_hooks.monitor import Monitor
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.wire import Receipt, encode

Collector = Callable[[], AbstractContextManager[str]]
SLOW_SECONDS = 10.5  # ten, and a little for the way


def connect_impatiently(url: str, *, close_timeout_seconds: float) -> Monitor:
    """Connect as `trainer_hooks.connect` does, to a monitor that waits a shorter time when it is closed."""
    settings = ConnectionSettings.resolve(url=url, run="r")
    assert settings is not None
    monitor = Monitor(settings, HttpTransport(url), close_timeout_seconds=close_timeout_seconds)
    monitor.start()
    return monitor


@contextlib.contextmanager
def nobody_listens() -> Iterator[str]:
    """Yield the address of a port on which nothing listens."""
    with reserved_port() as port:
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def nobody_answers() -> Iterator[str]:
    """Yield the address of a collector that takes a connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextlib.contextmanager
def answering(status: int, body: bytes, *, after_seconds: float = 0.0) -> Iterator[str]:
    """Yield the address of a collector that gives the same answer to every request, after a delay."""
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            ended.wait(after_seconds)
            with contextlib.suppress(OSError):  # the trainer has gone
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def do_GET(self) -> None:
            self.do_POST()

        def do_DELETE(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with serving_requests(Handler) as url:
        yield url
        ended.set()


@contextlib.contextmanager
def dripping(beginning: bytes, drop: bytes, *, every_seconds: float = 0.05) -> Iterator[str]:
    """Yield the address of a collector whose answer never ends: it sends one drop of the answer after another."""
    ended, open_now = threading.Event(), list[socket.socket]()

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not ended.is_set():
                connection, _ = listener.accept()
                open_now[:] = [connection]
                with connection, contextlib.suppress(OSError):
                    connection.sendall(beginning)
                    while not ended.wait(every_seconds):
                        connection.sendall(drop)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        ended.set()
        for held in [listener, *open_now]:  # the end of the server would wait for a connection that has no reader
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)
        thread.join()


def slow(after_seconds: float = SLOW_SECONDS) -> AbstractContextManager[str]:
    """Return a context with the address of a collector that accepts everything, slowly."""
    return answering(200, encode(Receipt(run_id="r", accepted=1, phase="healthy")), after_seconds=after_seconds)


BAD_COLLECTORS: dict[str, Collector] = {
    "dead": nobody_listens,
    "silent": nobody_answers,
    "slow": slow,
    "500": lambda: answering(500, b"oops"),
    "garbage": lambda: answering(200, b"<html>log in</html>"),
    "empty": lambda: answering(200, b""),
}
