"""An id for each request: in its answer, in the log lines that it causes, and in the SDK's error messages."""

import random
import re
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Final

__all__ = ["HEADER", "REQUEST_ID", "choose_id"]

HEADER: Final = b"x-request-id"
REQUEST_ID: Final[ContextVar[str | None]] = ContextVar("rlvitals_request_id", default=None)
"""The id of the current request, also in the threads that work for it; None outside of requests."""

ID_BITS: Final = 64
# `secrets` is not used, because it calls the operating system and releases Python's lock: while the projector computes,
# the event loop then waits up to a switch interval to get it back, for each request. An id is not a secret.
_random = random.Random()  # noqa: S311 - as above
_VALID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")


def choose_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the id of a request from a client or a proxy, if it is short and harmless, otherwise a new one."""
    given = next((value for name, value in headers if name == HEADER), b"")
    return given.decode() if _VALID.fullmatch(given) else f"{_random.getrandbits(ID_BITS):0{ID_BITS // 4}x}"
