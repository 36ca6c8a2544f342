"""Signed links in notifications, which are stored only as a hash, and the secrets that sign them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from monitor_server.store.tables import action_links, link_secrets

__all__ = ["ActionLinks", "StoredLink", "StoredSecret"]

_LINK, _SECRET = action_links.c, link_secrets.c


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret:
    """A secret that signs links; ``ended_at`` is None while its links are valid."""

    id: str
    secret: bytes
    created_at: float
    ended_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLink:
    """The stored part of a link; times are seconds since the epoch.

    Attributes:
        hash: SHA-256 of its token, in hexadecimal.
        secret_id: The secret that has signed it.
        action: Its effect on the alert or the run.
        channel: The channel to which it was sent.
        message_id: The message that contains it.
        used_at: The time at which it was used; None until then.
    """

    hash: str
    secret_id: str
    run_id: str
    alert_id: str
    action: str
    channel: str
    message_id: str
    created_at: float
    expires_at: float
    used_at: float | None = None


class ActionLinks:
    """Reads and writes links and secrets."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, links: Sequence[StoredLink]) -> None:
        """Write new links."""
        if links:
            self._connection.execute(insert(action_links), [asdict(link) for link in links])

    def find(self, hashed: str) -> StoredLink | None:
        """Return the link whose token has a hash, or None."""
        row = self._connection.execute(select(action_links).where(_LINK.hash == hashed)).mappings().one_or_none()
        return None if row is None else _link(row)

    def of_message(self, message_id: str) -> list[StoredLink]:
        """Return the links of a message, in their order of display."""
        query = select(action_links).where(_LINK.message_id == message_id).order_by(_LINK.alert_id, _LINK.action)
        return [_link(row) for row in self._connection.execute(query).mappings()]

    def use(self, hashed: str, *, now: float) -> bool:
        """Mark a link as used. Return whether this call did so; of several simultaneous calls, only one does."""
        here = (_LINK.hash == hashed) & _LINK.used_at.is_(None) & (_LINK.expires_at > now)
        return self._connection.execute(update(action_links).where(here), {"used_at": now}).rowcount == 1

    def remove_old(self, *, before: float) -> None:
        """Remove the links that expired before a time."""
        self._connection.execute(delete(action_links).where(_LINK.expires_at < before))

    def current_secret(self) -> StoredSecret | None:
        """Return the newest secret that has not ended, or None."""
        query = select(link_secrets).where(_SECRET.ended_at.is_(None)).order_by(_SECRET.created_at.desc(), _SECRET.id)
        row = self._connection.execute(query.limit(1)).mappings().one_or_none()
        return None if row is None else StoredSecret(**row)

    def find_secret(self, secret_id: str) -> StoredSecret | None:
        """Return a secret that has not ended, or None."""
        query = select(link_secrets).where(_SECRET.id == secret_id, _SECRET.ended_at.is_(None))
        row = self._connection.execute(query).mappings().one_or_none()
        return None if row is None else StoredSecret(**row)

    def add_secret(self, secret: StoredSecret) -> None:
        """Write a new secret."""
        self._connection.execute(insert(link_secrets), asdict(secret))

    def end_secrets(self, *, now: float) -> None:
        """End all secrets; the links that they have signed become invalid."""
        self._connection.execute(
            update(link_secrets).where(_SECRET.ended_at.is_(None)), {"ended_at": now, "secret": b""}
        )

    def expire_links(self, *, now: float) -> int:
        """End all valid links, and return their number."""
        here = _LINK.used_at.is_(None) & (_LINK.expires_at > now)
        return self._connection.execute(update(action_links).where(here), {"expires_at": now}).rowcount

    def limit_times(self, now: float) -> None:
        """End the valid links that were made after ``now``: their end is part of the signed text and cannot move."""
        here = _LINK.used_at.is_(None) & (_LINK.created_at > now)
        self._connection.execute(update(action_links).where(here), {"expires_at": now})


def _link(row: Mapping[Any, Any]) -> StoredLink:
    return StoredLink(**{name: row[name] for name in StoredLink.__slots__})
