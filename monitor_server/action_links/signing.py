"""The tokens of links: HMAC-SHA256 over the data of a link, with a secret of the installation.

A token is only the signature. Its hash is stored with the signed data. So a reader of the database without the secret
cannot make a link, and a changed row does not change the action of a link.
"""

import base64
import hashlib
import hmac
import re
import secrets
from pathlib import Path
from typing import Final

from monitor_server.configuration_files.reading import UnusableFileError, read_bounded
from monitor_server.errors import StartupError
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.action_links import StoredLink, StoredSecret

__all__ = ["LinkSecrets", "confirmation", "hash_token", "is_confirmed", "is_signed", "is_token", "sign"]

SECRET_BYTES: Final = 32
ID_DIGITS: Final = 16
CONFIRMATION_SECONDS: Final = 900.0
TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")  # the 32 bytes of a signature in Base64 without padding


class LinkSecrets:
    """The secrets that sign links: from a file, or from the database, which creates one when it is first needed.

    Args:
        path: The file; None for the database.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    def check(self) -> None:
        """Check that the file holds a secret.

        Raises:
            StartupError: If it does not.
        """
        if self._path is not None:
            self._of_file(self._path)

    def current(self, repositories: Repositories, *, now: float) -> StoredSecret:
        """Return the secret that signs new links, in a transaction with write access.

        Raises:
            StartupError: If the file can no longer be read.
        """
        if self._path is not None:
            return self._of_file(self._path)
        found = repositories.action_links.current_secret()
        if found is None:
            # Two collectors that begin at the same time may each create one; the links of both are valid.
            found = StoredSecret(
                id=secrets.token_hex(ID_DIGITS // 2), secret=secrets.token_bytes(SECRET_BYTES), created_at=now
            )
            repositories.action_links.add_secret(found)
        return found

    def find(self, repositories: Repositories, secret_id: str) -> bytes | None:
        """Return the secret that signed a link, or None if it has ended."""
        if self._path is None:
            stored = repositories.action_links.find_secret(secret_id)
            return None if stored is None else stored.secret
        try:
            given = self._of_file(self._path)
        except StartupError:
            return None
        return given.secret if given.id == secret_id else None

    @staticmethod
    def _of_file(path: Path) -> StoredSecret:
        try:
            secret = read_bounded(path).strip()
        except UnusableFileError as error:
            raise StartupError(f"RLVITALS_LINK_SECRET_FILE: {error}") from error
        if len(secret) < SECRET_BYTES:
            raise StartupError(
                f"RLVITALS_LINK_SECRET_FILE: {path} must hold at least {SECRET_BYTES} bytes, got {len(secret)}; "
                "`openssl rand -hex 32` makes some"
            )
        named = f"file-{hashlib.sha256(secret).hexdigest()[:ID_DIGITS]}"
        return StoredSecret(id=named, secret=secret, created_at=0.0)


def sign(
    secret: bytes, *, run_id: str, alert_id: str, action: str, channel: str, message_id: str, expires_at: float
) -> str:
    """Return the token of a link: a signature over all data that the link depends on."""
    return _sign(secret, "link", run_id, alert_id, action, channel, message_id, repr(float(expires_at)))


def is_signed(token: str, link: StoredLink, secret: bytes) -> bool:
    """Whether a token is the signature over a stored link; compared in constant time."""
    signed = sign(
        secret, run_id=link.run_id, alert_id=link.alert_id, action=link.action, channel=link.channel,
        message_id=link.message_id, expires_at=link.expires_at,
    )  # fmt: skip
    return hmac.compare_digest(signed.encode(), token.encode())


def is_token(given: str) -> bool:
    """Whether a text has the form of a token; any other text need not be looked up."""
    return TOKEN.fullmatch(given) is not None


def hash_token(token: str) -> str:
    """Return the SHA-256 of a token. Only this hash is stored."""
    return hashlib.sha256(token.encode()).hexdigest()


def confirmation(secret: bytes, hashed: str, *, now: float) -> str:
    """Return the value in the form of a confirmation page: nobody can act on a link without opening the page."""
    issued_at = str(int(now))
    return f"{issued_at}.{_sign(secret, 'confirmation', hashed, issued_at)}"


def is_confirmed(given: str, secret: bytes, hashed: str, *, now: float) -> bool:
    """Whether a value comes from the form of a page that is at most 15 minutes old; compared in constant time."""
    issued_at, _, signed = given.partition(".")
    if not (issued_at.isascii() and issued_at.isdigit() and len(issued_at) < ID_DIGITS):
        return False
    is_recent = -CONFIRMATION_SECONDS <= now - float(issued_at) <= CONFIRMATION_SECONDS
    expected = _sign(secret, "confirmation", hashed, issued_at)
    return hmac.compare_digest(expected.encode(), signed.encode()) and is_recent


def _sign(secret: bytes, *parts: str) -> str:
    signature = hmac.new(secret, "\0".join(parts).encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
