"""The credentials in a browser's request, which the dashboard sends on with each request to the collector.

The collector decides what a browser may see. The dashboard stores no keys and evaluates no cookie.
"""

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Final

__all__ = ["current_credentials", "remember_credentials"]

FORWARDED: Final = (b"authorization", b"cookie", b"x-forwarded-proto")

_current: ContextVar[Mapping[str, str]] = ContextVar("rlvitals_credentials")


def remember_credentials(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Keep the credentials in the headers of the present request, for this task alone."""
    _current.set({name.decode(): value.decode("latin-1") for name, value in headers if name in FORWARDED})


def current_credentials() -> Mapping[str, str]:
    """Return the headers by which the collector recognises the browser."""
    return _current.get({})
