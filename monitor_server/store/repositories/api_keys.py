"""API keys. Only the hash of each key is stored."""

from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, insert, or_, select, update

from monitor_server.store.postgresql.advisory_locks import AdvisoryLock, wait_for_lock
from monitor_server.store.tables import api_keys

__all__ = ["ApiKeys", "StoredKey"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """One key as it is stored; the times are seconds since the epoch.

    Attributes:
        id: The public name of the key: the first 16 hexadecimal digits of its hash.
        name: The name that the creator of the key gave it. Two keys that are not revoked and act in the same project
            never have the same name.
        scope: The actions that the key allows.
        project: The only project that the key may access; None for all.
        hash: SHA-256 of the key.
        session_secret: Signs the cookies of dashboard sessions that were opened with the key.
        subject: The person that the key represents, as named by an OpenID Connect provider: the issuer, a blank, and
            the person's id. None for every other key.
    """

    id: str
    name: str
    scope: str
    project: str | None
    hash: bytes = field(repr=False)
    session_secret: bytes = field(repr=False)
    created_at: float
    created_by: str
    last_used_at: float | None = None
    expires_at: float | None = None
    revoked_at: float | None = None
    subject: str | None = None

    def is_valid(self, now: float) -> bool:
        """Whether the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


_COLUMNS = [api_keys.c[name] for name in StoredKey.__slots__]


class ApiKeys:
    """Reads and writes API keys."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lock(self) -> None:
        """Prevent other new keys until the transaction ends; on SQLite one transaction writes at a time."""
        wait_for_lock(self._connection, AdvisoryLock.API_KEYS)

    def all(self) -> list[StoredKey]:
        """Return all keys, including revoked and expired ones, the oldest first."""
        rows = self._connection.execute(select(*_COLUMNS).order_by(api_keys.c.number)).mappings()
        return [StoredKey(**{name: row[name] for name in StoredKey.__slots__}) for row in rows]

    def add(self, key: StoredKey) -> None:
        """Write a new key."""
        self._connection.execute(insert(api_keys), {name: getattr(key, name) for name in StoredKey.__slots__})

    def renew(self, key: StoredKey) -> None:
        """Write the name, the scope, the project and the end of a key that represents a person."""
        changed = {name: getattr(key, name) for name in ("name", "scope", "project", "expires_at")}
        self._connection.execute(update(api_keys).where(api_keys.c.id == key.id), changed)

    def revoke(self, key_id: str, *, now: float) -> None:
        """End a key for ever; a key that is already revoked keeps its time."""
        here = (api_keys.c.id == key_id) & api_keys.c.revoked_at.is_(None)
        self._connection.execute(update(api_keys).where(here), {"revoked_at": now})

    def remove(self, key_id: str) -> None:
        """Remove a key that has ended."""
        self._connection.execute(delete(api_keys).where(api_keys.c.id == key_id))

    def save_use(self, key_id: str, at: float) -> None:
        """Write the time at which a key was last used, unless a later time is stored."""
        later = or_(api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at < at)
        self._connection.execute(update(api_keys).where(api_keys.c.id == key_id, later), {"last_used_at": at})
