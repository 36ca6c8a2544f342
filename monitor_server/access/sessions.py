"""Signed texts that represent a caller: the cookie of a browser, and the dashboard's text for the API."""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import asdict
from typing import Final

from itsdangerous import BadData, Signer, URLSafeSerializer
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from monitor_server.access.callers import Caller, Scope
from monitor_server.store.repositories.api_keys import StoredKey

__all__ = [
    "COOKIE",
    "DELEGATED",
    "Delegation",
    "delete_session_cookie",
    "find_cookie",
    "host_cookie",
    "is_encrypted",
    "read_session",
    "set_session_cookie",
    "sign_session",
]

COOKIE: Final = "rlvitals_session"
DELEGATED: Final = "dashboard."
DELEGATION_SECONDS: Final = 60.0  # longer than the dashboard takes for one answer


def sign_session(key: StoredKey, *, until: float) -> str:
    """Return the value of a cookie. It names the key, ends with the key's revocation, and contains no secret."""
    return _signer(key).sign(f"{key.id}~{int(until)}").decode()


def set_session_cookie(
    answer: Response, request: Request, key: StoredKey, *, now: float, seconds: float, is_https: bool
) -> None:
    """Sign a browser in: its cookie ends after ``seconds``, or with the key; ``is_https`` comes from the settings."""
    secure = is_encrypted(request.headers, scheme=request.url.scheme, is_https=is_https)
    answer.set_cookie(
        host_cookie(COOKIE, secure=secure),
        sign_session(key, until=now + seconds),
        max_age=int(seconds),
        httponly=True,
        samesite="lax",  # a link in a message opens the dashboard; changes also need our own Origin
        secure=secure,
    )


def delete_session_cookie(answer: Response) -> None:
    """Sign a browser out, under both possible names of its cookie."""
    for secure in (False, True):
        answer.delete_cookie(host_cookie(COOKIE, secure=secure), httponly=True, samesite="lax", secure=secure)


def host_cookie(name: str, *, secure: bool) -> str:
    """Return the name of a cookie; with the prefix, browsers accept it only over TLS and only from this very host."""
    return f"__Host-{name}" if secure else name


def find_cookie(headers: Headers, name: str) -> str | None:
    """Return the value of a cookie, or None; if there are several, the last one is used.

    A browser sends the cookies of every port of a host, and an invalid one must not hide the others. Only spaces and
    tabs are removed around a name, as browsers do: a sibling host may set ``__Host-...`` after the byte A0, which
    Python treats as a space.
    """
    found = None
    for pair in "; ".join(headers.getlist("cookie")).split(";"):
        key, _, value = pair.partition("=")
        if key.strip(" \t") == name:
            found = value.strip(" \t")
    return found


def is_encrypted(headers: Headers, *, scheme: str, is_https: bool) -> bool:
    """Whether a browser uses TLS, to us or to a proxy before us. Its cookies are then for TLS only.

    Args:
        headers: The headers of its request.
        scheme: The scheme of the connection to us.
        is_https: Whether RLVITALS_PUBLIC_URL begins with https://. Many proxies do not state the scheme that they use.
    """
    forwarded = headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return is_https or "https" in (scheme, forwarded)


def read_session(value: str, *, find: Callable[[str], StoredKey | None], now: float) -> StoredKey | None:
    """Return the key that a cookie names; None if the key or the time has ended, or the signature is wrong."""
    key = find(value.partition("~")[0])
    if key is None:
        return None
    text = value.rpartition(".")[0]
    # The text is signed again and compared as a whole, because base64 can be written in several ways.
    signed = _signer(key).sign(text.encode(errors="replace"))
    if not hmac.compare_digest(signed, value.encode(errors="replace")):
        return None
    return key if now < float(text.partition("~")[2]) else None


class Delegation:
    """The text that the dashboard of this process sends to the API in place of the browser's own credentials.

    A user from a proxy is recognised by the proxy's address, which the dashboard's requests do not have. The secret
    exists in this process only.

    Args:
        clock: Returns seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._serializer = URLSafeSerializer(
            secrets.token_bytes(32), signer_kwargs={"digest_method": hashlib.sha256, "key_derivation": "hmac"}
        )

    def sign(self, caller: Caller) -> str:
        """Return a text that represents a caller for a minute."""
        return DELEGATED + str(self._serializer.dumps([asdict(caller), self._clock() + DELEGATION_SECONDS]))

    def read(self, text: str) -> Caller | None:
        """Return the caller that a text represents, or None."""
        try:
            fields, until = self._serializer.loads(text.removeprefix(DELEGATED))
        except BadData:
            return None
        return Caller(**fields | {"scope": Scope(fields["scope"])}) if self._clock() < until else None


def _signer(key: StoredKey) -> Signer:
    return Signer(key.session_secret, salt="rlvitals.session", key_derivation="hmac", digest_method=hashlib.sha256)
