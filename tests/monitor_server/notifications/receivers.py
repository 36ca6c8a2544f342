"""Receivers on the loopback: an HTTP server that keeps its requests, and files that name it."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SECRET = "a-secret-of-the-webhook-0123456789"  # noqa: S105 - of the tests


@dataclass
class Receiver:
    """An HTTP server; `answer` decides the status of each request, and may write to the connection itself."""

    url: str = ""
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answer: Callable[[BaseHTTPRequestHandler], int | None] = lambda _: 200

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The bodies that were received, as JSON."""
        return [json.loads(body) for _, body in list(self.received)]

    @property
    def changes(self) -> list[tuple[str, tuple[str, ...]]]:
        """The run and the changes of each alert of each message."""
        return [(alert["run"], tuple(alert["changes"])) for body in self.bodies for alert in body["alerts"]]


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """Run an HTTP receiver until the block ends."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.received.append((dict(self.headers.items()), body))
            status = receiver.answer(self)
            if status is not None:
                self.send_response(status)
                self.end_headers()

        do_GET = do_POST  # noqa: N815 - the name of the base class

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            """Print nothing: some tests need a client that goes away."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def webhook(name: str, url: str) -> str:
    """Return the table of a webhook channel."""
    return f'[channels.{name}]\ntype = "webhook"\nurl = "{url}"\nsecret = "{SECRET}"\n'


def written(folder: Path, *parts: str, head: str = "") -> Path:
    """Write a file of notifications, and return its path."""
    path = folder / "notifications.toml"
    path.write_text("\n".join(["version = 1", head, *parts]), encoding="utf-8")
    return path
