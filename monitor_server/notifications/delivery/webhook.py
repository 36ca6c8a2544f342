"""Sends signed JSON to an HTTP address.

No redirect is followed, and a long or slow answer is not read to its end.
"""

import contextlib
import hashlib
import hmac
import http.client
import socket
import ssl
import threading
import time
from typing import Final
from urllib.parse import urlsplit

from monitor_server.notifications.configuration.networks import NetworkRefused, Networks
from monitor_server.notifications.configuration.tables import WebhookChannel
from monitor_server.text_safety.printable import printable

__all__ = ["DELIVERY_SECONDS", "Cancellation", "DeliveryFailed", "is_refusal", "post_webhook", "signature"]

CONNECT_SECONDS: Final = 5.0
DELIVERY_SECONDS: Final = 20.0
SUCCESS: Final = range(200, 300)
# Its syntax, its size, the length of an address or a header with its text (services of Apprise), and its content. Other
# statuses, 403 among them, are about access, the receiver or the moment, and all messages have them.
ABOUT_THE_MESSAGE: Final = frozenset({400, 413, 414, 422, 431})


class DeliveryFailed(Exception):  # noqa: N818 - it states what has happened
    """A receiver did not accept a message; the error's text contains no secret.

    Attributes:
        is_refusal: Whether the receiver refuses what the message contains, so that a repeat alone cannot help.
    """

    def __init__(self, reason: str, *, is_refusal: bool = False) -> None:
        super().__init__(reason)
        self.is_refusal = is_refusal


class Cancellation:
    """Ends a running delivery from another thread, when the collector stops or the time is over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._end: object = None
        self.is_cancelled = False

    def cancel(self) -> None:
        """End the attached operations, and each one that is attached later."""
        with self._lock:
            self.is_cancelled = True
            end = self._end
        if callable(end):
            end()

    def attach(self, end: object) -> None:
        """Call ``end`` when the delivery is cancelled."""
        with self._lock:
            self._end = end
            is_late = self.is_cancelled
        if is_late and callable(end):
            end()


def is_refusal(status: int) -> bool:
    """Return whether a status says that a receiver refuses what a message contains."""
    return status in ABOUT_THE_MESSAGE


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the value of ``X-Rlvitals-Signature``: HMAC-SHA256 over the timestamp, a point and the body."""
    return "v1=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def post_webhook(
    channel: WebhookChannel,
    *,
    message_id: str,
    body: bytes,
    cancellation: Cancellation,
    networks: Networks | None = None,
) -> None:
    """Post a message, and return once the receiver has accepted it.

    Args:
        channel: The webhook.
        message_id: The key by which the receiver recognises a repeat.
        body: JSON.
        cancellation: Ends the delivery early.
        networks: The networks that it may connect to; all if None.

    Raises:
        DeliveryFailed: If the receiver cannot be reached, is too slow, or answers with a status other than 2xx.
    """
    address = urlsplit(channel.url.get_secret_value())
    timestamp = str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "rlvitals",
        "Idempotency-Key": message_id,
        "X-Rlvitals-Timestamp": timestamp,
        "X-Rlvitals-Signature": signature(channel.secret.get_secret_value(), timestamp, body),
        "Connection": "close",
    }
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    # Without a port, http.client takes the last group of an IPv6 address for it.
    connection = kind(address.hostname or "", address.port or kind.default_port, timeout=CONNECT_SECONDS)
    if networks is not None:
        # http.client opens its connection with this function. So the address that was checked is the one that is
        # connected to.
        connection._create_connection = networks.connect  # type: ignore[attr-defined]  # noqa: SLF001
    deadline = threading.Timer(DELIVERY_SECONDS, cancellation.cancel)
    deadline.daemon = True
    begun = time.monotonic()
    deadline.start()
    try:
        connection.connect()
        held: socket.socket = connection.sock
        cancellation.attach(lambda: _shut(held))
        held.settimeout(DELIVERY_SECONDS)
        target = (address.path or "/") + (f"?{address.query}" if address.query else "")
        connection.request("POST", target, body=body, headers=headers)
        with connection.getresponse() as answer:
            status = answer.status  # the body of the answer is not read
    except NetworkRefused as error:
        raise DeliveryFailed(f"the address may not be reached: it is {error}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        if time.monotonic() - begun >= DELIVERY_SECONDS:
            raise DeliveryFailed(f"the receiver did not answer within {DELIVERY_SECONDS:.0f} s") from None
        raise DeliveryFailed(f"the receiver could not be reached: {printable(_reason(error), longest=200)}") from None
    finally:
        deadline.cancel()
        cancellation.attach(None)
        connection.close()
    if status not in SUCCESS:
        redirect = ", and redirects are not followed" if status in range(300, 400) else ""
        raise DeliveryFailed(f"the receiver answered {status}{redirect}", is_refusal=is_refusal(status))


def _reason(error: Exception) -> str:
    """Return the reason of an error without its text, which could contain the address, with a secret in its path."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message.partition(',')[0]}"  # the host is after the comma
    return error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__


def _shut(held: socket.socket) -> None:
    with contextlib.suppress(OSError):
        held.shutdown(socket.SHUT_RDWR)
