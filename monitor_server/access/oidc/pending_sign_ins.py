"""A sign-in that is under way: what the browser keeps of it while the provider has the person.

The browser holds it in a signed cookie, so that any collector with the same client secret can finish what another has
begun. A browser without such a cookie cannot finish a sign-in, so a foreign page cannot sign a browser in.
"""

import hashlib
import hmac
import re
import secrets
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
# "//elsewhere" and "/\elsewhere" lead to another site; browsers pass over control characters.
PAGE: Final = re.compile(r"/(?![/\\])[!-\[\]-~]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSignIn:
    """One sign-in that is under way.

    Attributes:
        state: Returned by the provider, so that an answer belongs to a question of this browser.
        nonce: Stands in the ID token, so that a token belongs to this sign-in.
        verifier: Proves to the provider that who redeems the code has asked for it (PKCE).
        page: The page that opens afterwards.
        until: When the sign-in is over, in seconds since the epoch.
    """

    state: str
    nonce: str
    verifier: str
    page: str
    until: float

    @classmethod
    def begin(cls, page: str, *, now: float) -> "PendingSignIn":
        """Make a sign-in of random numbers."""
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

    def sign(self, pending: PendingSignIn) -> str:
        """Return the value of the cookie."""
        return str(self._serializer.dumps(asdict(pending)))

    def read(self, value: str | None, *, state: str, now: float) -> PendingSignIn | None:
        """Return the sign-in of a cookie; None if it is another one's, is over, or is not signed by us."""
        try:
            pending = PendingSignIn(**self._serializer.loads(value or ""))
        except (BadData, TypeError):
            return None
        is_same = hmac.compare_digest(pending.state.encode(), state.encode(errors="replace"))
        return pending if is_same and now < pending.until else None


class UsedSignIns:
    """The sign-ins that this process has used, each until it is over, so that none is used twice.

    Pending ones are held by browsers alone. Used ones are bounded by the rate at which sign-ins are finished.
    """

    def __init__(self) -> None:
        self._used: dict[bytes, float] = {}  # in the order of use

    def __len__(self) -> int:
        """Return how many are held."""
        return len(self._used)

    def use(self, pending: PendingSignIn, *, now: float) -> bool:
        """Use a sign-in up; return whether it was not used before."""
        while self._used and next(iter(self._used.values())) <= now:
            del self._used[next(iter(self._used))]
        digest = hashlib.sha256(pending.state.encode()).digest()
        if digest in self._used:
            return False
        self._used[digest] = pending.until
        return True


def page_of_this_site(page: str) -> str:
    """Return the path of a page, or that of the first page where the text would lead to another site."""
    return page if len(page) <= LONGEST_PAGE and PAGE.fullmatch(page) else "/"
