"""A relay between clients and a server, which a test lets stand still, lead to another server, or end."""

import contextlib
import socket
import threading

__all__ = ["Relay"]


class Relay:
    """Passes on what clients and a server send to each other.

    Args:
        to: The port of the server.

    Attributes:
        port: The port for the clients.
        to: The port to which new connections lead; those that are open stay where they are.
        moves: Set unless the relay stands still.
    """

    def __init__(self, to: int) -> None:
        self.to = to
        self._sockets: list[socket.socket] = []
        self.moves = threading.Event()
        self.moves.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections."""
        cut, self._sockets = self._sockets, []
        for each in cut:
            _end(each)

    def end(self) -> None:
        """End all connections, and accept none any more."""
        _end(self._listener)
        self.cut()
        self.moves.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, server = self._listener.accept()[0], socket.create_connection(("127.0.0.1", self.to))
                self._sockets += [client, server]
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.moves.wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
