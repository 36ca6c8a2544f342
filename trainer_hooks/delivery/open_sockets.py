"""Ends an exchange over HTTP that takes too long as a whole, by shutting its socket from another thread.

The timeouts of a connection count anew for each part that arrives, so a server that sends a byte at a time is never too
slow for them.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["OpenSockets"]


class OpenSockets:
    """The socket of the newest connection of one pool."""

    def __init__(self) -> None:
        self._newest: socket.socket | None = None

    def noting(self, kind: type[Any]) -> type[Any]:
        """Return a class of urllib3's connections that notes each socket here."""

        def connect(connection: Any) -> None:  # noqa: ANN401 - urllib3's, with TLS or without
            kind.connect(connection)
            self._newest = connection.sock

        return type(kind.__name__, (kind,), {"connect": connect})

    @contextlib.contextmanager
    def shut_after(self, seconds: float) -> Iterator[None]:
        """Shut the socket if the block takes longer; what waits for it then gets an error, or the end of the answer.

        Raises:
            TimeoutError: In place of both.
        """
        is_over = threading.Event()

        def shut() -> None:
            is_over.set()
            held = self._newest
            if held is not None:
                with contextlib.suppress(OSError):
                    held.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(seconds, shut)
        timer.daemon = True
        with contextlib.suppress(RuntimeError):  # an interpreter that ends starts no thread any more
            timer.start()
        error: Exception | None = None
        try:
            yield
        except Exception as caught:
            if not is_over.is_set():
                raise
            error = caught
        finally:
            timer.cancel()
        if is_over.is_set():
            raise TimeoutError(f"batch and answer took longer than {seconds:g} s") from error
