"""The credentials in a browser's request, which the dashboard sends on with each request to the collector.

The collector decides what a browser may see. The dashboard stores no keys and evaluates no cookie.
"""

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import Final

__all__ = ["current_credentials", "remember_credentials"]

FORWARDED: Final = (b"authorization", b"cookie", b"x-forwarded-proto")

Header = tuple[bytes, bytes]

_current: ContextVar[Sequence[Header]] = ContextVar("rlvitals_credentials")


def remember_credentials(headers: Iterable[Header]) -> None:
    """Keep the credentials in the headers of the present request, for this task alone."""
    _current.set([(name, value) for name, value in headers if name in FORWARDED])


def current_credentials() -> Sequence[Header]:
    """Return the headers by which the collector recognises the browser.

    They are bytes, because cookies of other programs on the same host may contain bytes beyond ASCII.
    """
    return _current.get(())
