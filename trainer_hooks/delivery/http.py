"""Batches over HTTP: `POST /api/v1/ingest`, one kept-alive connection, bounded times and answers. No retry here."""

from collections.abc import Mapping

import msgspec
import urllib3
from urllib3.exceptions import InvalidHeader
from urllib3.util import Retry, Timeout, parse_url

from trainer_hooks.delivery.transport import RefusedError, UnavailableError
from trainer_hooks.wire import MSGPACK, Receipt, decode_receipt

__all__ = ["HttpTransport"]

INGEST_PATH = "/api/v1/ingest"
CONNECT_TIMEOUT_SECONDS = 3.0
# A collector may take ten seconds under load; given up too early, what it has stored would be sent again for ever.
READ_TIMEOUT_SECONDS = 30.0
# A receipt is a few hundred bytes; whatever is much longer did not come from a collector.
LONGEST_ANSWER_BYTES = 1 << 20
OK = 200
# What a collector says of the batch itself. A wrong key or address can be mended, and then the batch is still good.
# They count in the collector's own words only: a web server answers 400 to a request that was damaged on the way.
REFUSALS = frozenset({400, 415, 422})
# An upgrade of the collector makes the batch good again.
ANOTHER_SCHEMA = "SchemaVersionMismatch"
# Whoever finds a batch too large, a proxy too, will find it so again.
TOO_LARGE = 413
# What decoding may raise: also for a name that is no UTF-8, and for what is nested too deeply.
BROKEN = (msgspec.DecodeError, ValueError, RecursionError)


class _Refusal(msgspec.Struct):
    """The shape in which a collector tells an error."""

    error: str
    detail: str


class HttpTransport:
    """Posts batches to a collector.

    Args:
        url: Address of the collector, such as ``http://127.0.0.1:8600``.
        api_key: Sent as a bearer token where given.
        connect_timeout_seconds: Longest wait for a connection.
        read_timeout_seconds: Longest wait for more of the answer.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str = "",
        connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS,
        read_timeout_seconds: float = READ_TIMEOUT_SECONDS,
    ) -> None:
        self._endpoint = url.rstrip("/") + INGEST_PATH
        self._path = parse_url(self._endpoint).request_uri
        headers = {"Content-Type": MSGPACK, "Accept": MSGPACK, "User-Agent": "rlvitals-sdk"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        # Not a manager of pools, which looks for the one pool at each request.
        self._pool = urllib3.connection_from_url(
            url,
            maxsize=1,
            headers=headers,
            retries=False,
            timeout=Timeout(connect=connect_timeout_seconds, read=read_timeout_seconds),
        )

    def send(self, body: bytes) -> Receipt:
        """Deliver a msgpack batch.

        Raises:
            UnavailableError: If there was no answer, a broken one, or one that says nothing about the batch.
            RefusedError: If the collector answered 400, 415 or 422 in its own words, or anybody 413.
        """
        try:
            status, answer, headers = self._exchange(body)
        except Exception as error:
            raise UnavailableError(f"{self._endpoint} cannot be reached: {error}") from error
        if status == OK:
            return self._receipt(answer)
        detail = f"{self._endpoint} answered {status}: {answer[:200].decode(errors='replace')}"
        if _is_refusal(status, answer):
            raise RefusedError(detail)
        raise UnavailableError(detail, retry_after_seconds=_retry_after(headers.get("Retry-After")))

    def _exchange(self, body: bytes) -> tuple[int, bytes, Mapping[str, str]]:
        response = self._pool.urlopen("POST", self._path, body=body, redirect=False, preload_content=False)
        # Nothing compressed was asked for, and a megabyte of it may hold a gigabyte.
        answer = response.read(LONGEST_ANSWER_BYTES + 1, decode_content=False)
        # A connection with unread bytes on it cannot be used again.
        if len(answer) > LONGEST_ANSWER_BYTES:
            response.close()
        response.release_conn()
        return response.status, answer, response.headers

    def _receipt(self, answer: bytes) -> Receipt:
        try:
            return decode_receipt(answer)
        except BROKEN as error:
            # Something between us and the collector may have answered in its place; ingest is idempotent.
            raise UnavailableError(f"{self._endpoint} answered 200 but no receipt: {error}") from error


def _is_refusal(status: int, answer: bytes) -> bool:
    if status not in REFUSALS:
        return status == TOO_LARGE
    try:
        refusal = msgspec.json.decode(answer, type=_Refusal)
    except BROKEN:
        return False
    return refusal.error != ANOTHER_SCHEMA


def _retry_after(header: str | None) -> float:
    if header is None:
        return 0.0
    try:
        return float(Retry().parse_retry_after(header))
    except (InvalidHeader, ValueError, OverflowError):
        return 0.0
