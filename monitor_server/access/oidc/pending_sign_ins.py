"""A pending sign-in: the state in the browser while the person is at the provider.

The browser has it in a signed cookie, so that any collector with the same client secret can finish a sign-in that
another one has begun. A browser without such a cookie cannot finish a sign-in, so a foreign page cannot sign a browser
in. The cookie contains the newest sign-ins of the browser, because each of its tabs may begin one.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from itsdangerous import BadData, URLSafeSerializer

__all__ = [
    "PENDING_COOKIE",
    "PENDING_SECONDS",
    "PendingSignIn",
    "PendingSignInCookies",
    "UsedSignIns",
    "page_of_this_site",
]

PENDING_COOKIE: Final = "rlvitals_oidc"
PENDING_SECONDS: Final = 600.0  # enough to type a password and a second factor
LONGEST_PAGE: Final = 1_000
MOST_PENDING: Final = 8
LONGEST_COOKIE: Final = 3_800  # browsers accept 4,096 bytes with the name and the attributes
# "//elsewhere" and "/\elsewhere" lead to another site; browsers ignore control characters.
PAGE: Final = re.compile(r"/(?![/\\])[!-\[\]-~]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSignIn:
    """One pending sign-in.

    Attributes:
        state: Returned by the provider. It shows that an answer belongs to a request of this browser.
        nonce: Contained in the ID token. It shows that a token belongs to this sign-in.
        verifier: Proves to the provider that the same party requested and redeems the code (PKCE).
        page: The page that opens afterwards.
        until: The end of the sign-in, in seconds since the epoch.
    """

    state: str
    nonce: str
    verifier: str
    page: str
    until: float

    def has_state(self, state: str) -> bool:
        """Whether an answer belongs to this sign-in."""
        return hmac.compare_digest(self.state.encode(), state.encode(errors="replace"))

    @classmethod
    def begin(cls, page: str, *, now: float) -> "PendingSignIn":
        """Create a sign-in with random numbers."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return cls(
            state=state, nonce=nonce, verifier=verifier, page=page_of_this_site(page), until=now + PENDING_SECONDS
        )


class PendingSignInCookies:
    """Signs and reads the cookies of pending sign-ins.

    Args:
        secret: The client's secret, from which the key of the signature is derived.
    """

    def __init__(self, secret: str) -> None:
        key = hmac.new(secret.encode(), b"rlvitals sign-in", hashlib.sha256).digest()
        options = {"digest_method": hashlib.sha256, "key_derivation": "hmac"}
        self._serializer = URLSafeSerializer(key, salt="rlvitals.oidc", signer_kwargs=options)

    def sign(self, pending: Sequence[PendingSignIn]) -> str:
        """Return the value of the cookie for the newest of the sign-ins, which are given with the oldest first."""
        held = pending[-MOST_PENDING:]
        value = str(self._serializer.dumps([asdict(each) for each in held]))
        return value if len(value) <= LONGEST_COOKIE or len(held) == 1 else self.sign(held[1:])

    def read(self, value: str | None, *, now: float) -> list[PendingSignIn]:
        """Return the unexpired sign-ins of a cookie, the oldest first; none if its signature is not ours."""
        try:
            held = [PendingSignIn(**each) for each in self._serializer.loads(value or "")]
        except (BadData, TypeError):
            return []
        return [each for each in held if now < each.until]


class UsedSignIns:
    """The sign-ins that this process has used, each until it expires, so that none is used twice.

    Pending sign-ins are stored in browsers only. The number of used ones is bounded by the rate of finished sign-ins.
    """

    def __init__(self) -> None:
        self._used: dict[bytes, float] = {}  # in the order of use

    def __len__(self) -> int:
        """Return the number of used sign-ins that are kept."""
        return len(self._used)

    def use(self, pending: PendingSignIn, *, now: float) -> bool:
        """Use up a sign-in; return whether this is its first use."""
        while self._used and next(iter(self._used.values())) <= now:
            del self._used[next(iter(self._used))]
        digest = hashlib.sha256(pending.state.encode()).digest()
        if digest in self._used:
            return False
        self._used[digest] = pending.until
        return True


def page_of_this_site(page: str) -> str:
    """Return the path of a page, or that of the first page if the text would lead to another site."""
    return page if len(page) <= LONGEST_PAGE and PAGE.fullmatch(page) else "/"
