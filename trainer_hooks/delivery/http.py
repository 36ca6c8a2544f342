"""Posts batches to `POST /api/v1/ingest` over one kept-alive connection, with time and size limits and no retries."""

import contextlib
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec
import urllib3
from urllib3.exceptions import InvalidHeader
from urllib3.util import Retry, Timeout, parse_url

from trainer_hooks.errors import ConfigurationError, RefusedError, UnavailableError
from trainer_hooks.text_safety import printable
from trainer_hooks.wire import MSGPACK, Receipt, decode_receipt

__all__ = ["HttpTransport"]

INGEST_PATH = "/api/v1/ingest"
CONNECT_TIMEOUT_SECONDS = 3.0
# A collector may take ten seconds under load. With a shorter wait, a batch that it has stored would be sent again and
# again.
READ_TIMEOUT_SECONDS = 30.0
# The longest time from the first byte of the batch to the last byte of the answer. The other timeouts begin anew with
# each part of an answer, so an answer of one byte a second, or an endless series of `100 Continue`, would block the
# exporter for ever.
EXCHANGE_SECONDS = 120.0
# A receipt has a few hundred bytes; a much longer answer did not come from a collector.
LONGEST_ANSWER_BYTES = 1 << 20
OK = 200
# The statuses by which the collector refuses the batch itself. The statuses for a wrong key or address are not among
# them, because the user can correct those. A status counts only with a body in the collector's error shape: a web
# server answers 400 to a request that was damaged on the way.
REFUSALS = frozenset({400, 415, 422})
# The collector can read the batch after an upgrade.
ANOTHER_SCHEMA = "SchemaVersionMismatch"
# A collector, or a proxy, that finds a batch too large will find it too large again.
TOO_LARGE = 413
SERVER_ERROR = 500
REDIRECTS, CLIENT_ERROR = 300, 400
# The errors that decoding may raise, also for a name that is not UTF-8 and for values that are nested too deeply.
DECODING_ERRORS = (msgspec.DecodeError, ValueError, RecursionError)


class _ErrorAnswer(msgspec.Struct):
    """The shape of the collector's error answers."""

    error: str
    detail: str


# The form of the request id in the collector's log; a proxy may put any text into the header.
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ERROR_ANSWERS = msgspec.json.Decoder(_ErrorAnswer)


@cache  # the metadata are read from the disk
def _user_agent() -> str:
    """Return the name and the version by which `rlvitals doctor` recognises an old SDK."""
    try:
        return f"rlvitals-sdk/{version('rlvitals')}"
    except PackageNotFoundError:  # a copy of the folder that was never installed
        return "rlvitals-sdk"


class _OpenSockets:
    """The socket of a pool's newest connection, which another thread shuts where an exchange takes too long.

    The timeouts of a connection count anew for each part that arrives, so a server that sends a byte at a time is never
    too slow for them.

    Args:
        connect_timeout_seconds: Longest wait for a connection. urllib3's own timeout for that also limits the time in
            which a batch is sent, which is seconds where the network is slow or the collector busy.
    """

    def __init__(self, connect_timeout_seconds: float) -> None:
        self._connect_timeout_seconds = connect_timeout_seconds
        self._newest: socket.socket | None = None
        self._is_over = threading.Event()  # whether the exchange under way has taken too long

    def noting(self, kind: type[Any]) -> type[Any]:
        """Return a class of urllib3's connections that notes each socket here."""

        def connect(connection: Any) -> None:  # noqa: ANN401 - urllib3's, with TLS or without
            sending_seconds, connection.timeout = connection.timeout, self._connect_timeout_seconds
            kind.connect(connection)
            connection.timeout = sending_seconds
            connection.sock.settimeout(sending_seconds)
            self._newest = connection.sock
            if self._is_over.is_set():  # nothing else would end the exchange: the timer found no socket of it
                connection.close()
                raise TimeoutError("connecting took longer than the exchange may take")

        return type(kind.__name__, (kind,), {"connect": connect})

    @contextlib.contextmanager
    def shut_after(self, seconds: float) -> Iterator[None]:
        """Shut the socket if the block takes longer; a read in the block then fails, or ends early.

        Raises:
            TimeoutError: If the block took longer, in place of the error of the read.
        """
        self._is_over = is_over = threading.Event()

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


class HttpTransport:
    """Posts batches to a collector.

    Args:
        url: Address of the collector, such as ``http://127.0.0.1:8600``.
        api_key: Sent as a bearer token where given.
        connect_timeout_seconds: Longest wait for a connection.
        read_timeout_seconds: Longest time for sending the batch, and longest wait for the next part of the answer.
        exchange_seconds: Longest time for a batch and its answer together.

    Raises:
        ConfigurationError: If the address has a host that no request can name.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str = "",
        connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS,
        read_timeout_seconds: float = READ_TIMEOUT_SECONDS,
        exchange_seconds: float = EXCHANGE_SECONDS,
    ) -> None:
        self._exchange_seconds = exchange_seconds
        self._endpoint = url.rstrip("/") + INGEST_PATH
        headers = {"Content-Type": MSGPACK, "Accept": MSGPACK, "User-Agent": _user_agent()}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        try:
            self._path = parse_url(self._endpoint).request_uri
            # Not a pool manager, which would look up the one pool at each request.
            self._pool = urllib3.connection_from_url(
                url,
                maxsize=1,
                headers=headers,
                retries=False,
                timeout=Timeout(connect=read_timeout_seconds, read=read_timeout_seconds),
            )
        except ValueError as error:
            raise ConfigurationError(f"url must look like http://host:8600, got {url!r}: {error}") from error
        self._sockets = _OpenSockets(connect_timeout_seconds)
        self._pool.ConnectionCls = self._sockets.noting(self._pool.ConnectionCls)

    def send(self, body: bytes) -> Receipt:
        """Deliver a msgpack batch.

        Raises:
            UnavailableError: If there was no answer, a broken one, or one that does not concern the batch.
            RefusedError: If the collector answered 400, 415 or 422 in its own error shape, or any server 413.
        """
        try:
            with self._sockets.shut_after(self._exchange_seconds):
                status, answer, headers = self._post(body)
        except Exception as error:
            raise UnavailableError(f"{self._endpoint} cannot be reached: {error}") from error
        if status == OK:
            return self._decode_receipt(answer)
        message = _describe_redirect(status, headers) or answer[:200].decode(errors="replace")
        detail = f"{self._endpoint} answered {status}: {message}{_request_id(headers)}"
        if _is_refusal(status, answer):
            raise RefusedError(detail)
        raise UnavailableError(detail, retry_after_seconds=_parse_retry_after(headers.get("Retry-After")))

    def _post(self, body: bytes) -> tuple[int, bytes, Mapping[str, str]]:
        response = self._pool.urlopen("POST", self._path, body=body, redirect=False, preload_content=False)
        connection = response.connection  # the pool has it again once the answer is read
        # No compression was requested, and a compressed megabyte may hold a gigabyte.
        answer = response.read(LONGEST_ANSWER_BYTES + 1, decode_content=False)
        # A connection with unread bytes on it cannot be used again.
        if len(answer) > LONGEST_ANSWER_BYTES:
            response.close()
        # A balancer of connections, as in Kubernetes, may lead a new one to a collector that takes the batch. After an
        # interim answer, such as 103, the final one would be taken for that to the next batch.
        if not OK <= response.status < SERVER_ERROR and connection is not None:
            connection.close()
        response.release_conn()
        return response.status, answer, response.headers

    def _decode_receipt(self, answer: bytes) -> Receipt:
        try:
            return decode_receipt(answer)
        except DECODING_ERRORS as error:
            # A proxy may have answered in place of the collector. Ingest is idempotent, so sending again is safe.
            raise UnavailableError(f"{self._endpoint} answered 200 but no receipt: {error}") from error


def _describe_redirect(status: int, headers: Mapping[str, str]) -> str:
    """Return where a balancer or a proxy sends the request instead, and what to do; empty for any other answer."""
    target = headers.get("Location", "")
    if not target or not REDIRECTS <= status < CLIENT_ERROR:
        return ""
    address = target.partition("?")[0]  # the query of a sign-in page has secrets
    if address.endswith(INGEST_PATH) and "://" in address:
        advice = f"set RLVITALS_URL to it without {INGEST_PATH}"
    else:
        advice = f"let the proxy pass {INGEST_PATH} on to the collector, without a sign-in"
    return f"redirected to {printable(address[:200])}; no redirect is followed, so {advice}"


def _request_id(headers: Mapping[str, str]) -> str:
    """Return the end of an error message: the id by which the collector's log names the request."""
    given = headers.get("X-Request-Id", "")
    return f" (request {given})" if _REQUEST_ID.fullmatch(given) else ""


def _is_refusal(status: int, answer: bytes) -> bool:
    if status not in REFUSALS:
        return status == TOO_LARGE
    try:
        refusal = _ERROR_ANSWERS.decode(answer)
    except DECODING_ERRORS:
        return False
    return refusal.error != ANOTHER_SCHEMA


def _parse_retry_after(header: str | None) -> float:
    if header is None:
        return 0.0
    try:
        return float(Retry().parse_retry_after(header))
    except (InvalidHeader, ValueError, OverflowError):
        return 0.0
