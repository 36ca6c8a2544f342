"""Creates and revokes keys, and records every change with its author."""

import hashlib
import secrets
from typing import Final

from monitor_server.access.audit.entries import record_change
from monitor_server.access.callers import Caller, Scope
from monitor_server.access.keys.names import fold_name
from monitor_server.errors import InvalidField, KeyNameTaken, UnknownKey
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.api_keys import StoredKey
from monitor_server.store.repositories.audit_log import reach_of

__all__ = ["MAX_KEYS", "PREFIX", "create_key", "hash_key", "revoke_key"]

PREFIX: Final = "rlv_"  # lets secret scanners recognise a key
KEY_BYTES: Final = 32  # 256 random bits cannot be guessed, so a fast hash protects them as well as a slow one
ID_DIGITS: Final = 16
MAX_KEYS: Final = 1_000  # of a project, whose administrator makes them; each collector reads all keys each second


def hash_key(secret: str) -> bytes:
    """Return the SHA-256 of a key. Only this hash is stored."""
    return hashlib.sha256(secret.encode()).digest()


def key_id(hashed: bytes) -> str:
    """Return the public name of a key."""
    return hashed.hex()[:ID_DIGITS]


def create_key(
    repositories: Repositories,
    *,
    name: str,
    scope: Scope,
    project: str | None,
    expires_at: float | None,
    author: Caller,
    now: float,
) -> tuple[str, StoredKey]:
    """Create a key, and return it with its stored form. The key itself cannot be read again.

    Raises:
        InvalidField: If the project has as many keys in use as a project may have.
        KeyNameTaken: If a key of this name is in use in the project of the new one. Keys of other projects are not
            mentioned, because an administrator of one project must not learn the names of other projects' keys.
    """
    repositories.api_keys.lock()  # the name must still be free when the key is written
    folded = fold_name(name)
    known = repositories.api_keys.all()
    beside = [key for key in known if None in (key.project, project) or key.project == project]
    if any(fold_name(key.name) == folded and key.revoked_at is None for key in beside):
        raise KeyNameTaken(f"a key named {name!r} is in use; revoke it first, or choose another name")
    own = [key for key in known if key.project == project and key.subject is None]
    if project is not None and len(own) >= MAX_KEYS:
        ended = [key.id for key in own if not key.is_valid(now)]
        if not ended:
            raise InvalidField(f"a project can have at most {MAX_KEYS:,} keys in use; revoke one first")
        repositories.api_keys.remove(ended[0])
    secret = PREFIX + secrets.token_urlsafe(KEY_BYTES)
    hashed = hash_key(secret)
    stored = StoredKey(
        id=key_id(hashed),
        name=name,
        scope=str(scope),
        project=project,
        hash=hashed,
        session_secret=secrets.token_bytes(KEY_BYTES),
        created_at=now,
        created_by=author.signature(),
        expires_at=expires_at,
    )
    repositories.api_keys.add(stored)
    record_change(
        repositories,
        author,
        "key.create",
        stored.id,
        now=now,
        project=project,
        detail=f"{name}: {scope}, {reach_of(project)}",
    )
    return secret, stored


def revoke_key(repositories: Repositories, named: str, *, author: Caller, now: float) -> StoredKey:
    """End a key for ever, and return it in its state before.

    Args:
        repositories: An open transaction.
        named: The id of a key, or the name of one that is in use.
        author: The author of the revocation; keys of projects that the author may not access are unknown.
        now: Seconds since the epoch.

    Raises:
        UnknownKey: If there is no such key, or several projects have one of this name.
    """
    reached = [key for key in repositories.api_keys.all() if author.reaches(key.project)]
    found = [key for key in reached if key.id == named or (key.name == named and key.revoked_at is None)]
    if not found:
        raise UnknownKey(f"no key in use has the name or the id {named!r}; `rlvitals keys list` lists them")
    key = next((key for key in found if key.id == named), found[0])
    if key.id != named and len(found) > 1:
        raise UnknownKey(
            f"{len(found)} keys in use have the name {named!r}, each in another project; give the id of the key"
        )
    if key.revoked_at is None:
        repositories.api_keys.revoke(key.id, now=now)
        record_change(repositories, author, "key.revoke", key.id, now=now, project=key.project, detail=key.name)
    return key
