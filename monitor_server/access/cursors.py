"""Hides the numbers behind cursors and ids from keys of one project, because they show the size of all projects.

A number of 56 bits goes through four rounds of a Feistel network whose function is keyed by a secret of the key. This
is a permutation: each number has exactly one cursor, and nothing is stored. All collectors of a database have the
secret.
"""

from contextvars import ContextVar
from hashlib import blake2b
from typing import Final

__all__ = ["CURSOR_SECRET", "hide", "reveal"]

CURSOR_SECRET: Final[ContextVar[bytes | None]] = ContextVar("rlvitals_cursor_secret", default=None)
"""The secret of the requesting key if it may access one project only; otherwise None, and cursors are plain numbers."""

HALF_BITS: Final = 28  # two halves fit the 18 digits of a cursor
MASK: Final = (1 << HALF_BITS) - 1
ROUNDS: Final = 4  # with a random function for each round, the permutation cannot be told from a random one


def hide(number: int) -> int:
    """Return the cursor of a number for the current request."""
    secret = CURSOR_SECRET.get()
    if secret is None:
        return number
    left, right = number >> HALF_BITS & MASK, number & MASK
    for place in range(ROUNDS):
        left, right = right, left ^ _mix(secret, place, right)
    return left << HALF_BITS | right


def reveal(cursor: int) -> int:
    """Return the number of a cursor for the current request."""
    secret = CURSOR_SECRET.get()
    if secret is None:
        return cursor
    left, right = cursor >> HALF_BITS & MASK, cursor & MASK
    for place in reversed(range(ROUNDS)):
        left, right = right ^ _mix(secret, place, left), left
    return left << HALF_BITS | right


def _mix(secret: bytes, place: int, half: int) -> int:
    digest = blake2b(half.to_bytes(4), key=secret, person=b"cursor", salt=bytes([place]), digest_size=4).digest()
    return int.from_bytes(digest) & MASK
