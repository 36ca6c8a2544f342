"""Ports of this machine for processes that need a port number before they start."""

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Yield a port that the processes which receive its number may listen on, and that no other process gets meanwhile.

    Until somebody listens, connections are refused. A socket of ours stays bound to the port and never listens: the
    kernel chooses such a port for no client and for no server of port 0, and lets one that asks for it by its number
    bind to it too, as long as it sets SO_REUSEADDR, as servers do (torch's store, uvicorn, http.server).
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])
