"""Runs a handler of `http.server` on a free port of this machine."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["serving_requests"]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a client may keep its connection open
    request_queue_size = 128  # a page of the dashboard asks for its parts at once


@contextlib.contextmanager
def serving_requests(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve until the block ends, and yield the address."""
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
