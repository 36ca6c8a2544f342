"""HTTP requests to the provider, bounded in time and in bytes. No redirect is followed and no proxy is used."""

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from monitor_server.access.oidc.configuration import is_safe_address
from monitor_server.errors import SignInRefused
from monitor_server.text_safety.printable import printable

__all__ = ["fetch_json"]

SECONDS: Final = 5.0
MOST_BYTES: Final = 256 * 1024  # the keys of a large provider take some 10 KiB


def fetch_json(
    method: str, address: str, *, body: str | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """Send a request and return the status and the JSON object of the answer.

    Raises:
        SignInRefused: If the provider cannot be reached, is too slow, or answers with anything but a JSON object of at
            most 256 KiB. The message contains no secret.
    """
    if not is_safe_address(address):
        raise _failure(f"an address of the provider must begin with https://, got {printable(address, longest=200)}")
    parts = urlsplit(address)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=SECONDS)
    # They are kept separately, because the connection forgets its socket if the provider announces that the answer ends
    # it.
    sockets: list[socket.socket] = []
    is_late = threading.Event()
    deadline = threading.Timer(SECONDS, _end, (sockets, is_late))
    deadline.daemon = True
    deadline.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        sent = {"Accept": "application/json", "User-Agent": "rlvitals", "Connection": "close"} | dict(headers or {})
        connection.connect()
        sockets.append(connection.sock)
        if is_late.is_set():  # the deadline passed before it could find the socket
            raise _failure(_too_slow())
        connection.request(method, target, body=body, headers=sent)
        with connection.getresponse() as answer:  # the answer holds the socket, even if only a part of it is read
            status, data = answer.status, answer.read(MOST_BYTES + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _failure(_too_slow() if is_late.is_set() else f"it cannot be reached: {type(error).__name__}") from None
    finally:
        deadline.cancel()
        connection.close()
    if is_late.is_set():  # the data that was read may be incomplete
        raise _failure(_too_slow())
    if len(data) > MOST_BYTES:
        raise _failure(f"an answer of the provider must have at most {MOST_BYTES} bytes, got more")
    try:
        decoded = json.loads(data)
    except (ValueError, RecursionError):
        decoded = None
    if not isinstance(decoded, dict):
        raise _failure(f"the provider must answer with a JSON object, got something else with status {status}")
    return status, decoded


def _end(sockets: Sequence[socket.socket], is_late: threading.Event) -> None:
    is_late.set()
    for held in sockets:
        with contextlib.suppress(OSError):
            held.shutdown(socket.SHUT_RDWR)


def _too_slow() -> str:
    return f"it did not answer within {SECONDS:.0f} s"


def _failure(problem: str) -> SignInRefused:
    return SignInRefused("provider", f"the OpenID Connect provider failed: {problem}")
