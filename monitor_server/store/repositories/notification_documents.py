"""The documents of channels and routes that people have saved, each with its version; the newest is in force."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from monitor_server.store.postgresql.advisory_locks import AdvisoryLock, wait_for_lock
from monitor_server.store.tables import notification_documents

__all__ = ["NotificationDocuments", "StoredDocument"]


_COLUMNS = notification_documents.c


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """A document as it was saved.

    Attributes:
        version: 1 for the first, and one more for each later one.
        saved_at: In seconds since the epoch.
        saved_by: The person or key that saved it.
        changes: Its changes, in words and without secrets.
        document: The tables of the file of notifications, with its secrets; empty if it cannot be read.
    """

    version: int
    saved_at: float
    saved_by: str
    changes: str
    document: Mapping[str, Any]


class NotificationDocuments:
    """Reads and writes documents."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lock(self) -> None:
        """Prevent other saves of a document until the transaction ends; on SQLite one transaction writes at a time."""
        wait_for_lock(self._connection, AdvisoryLock.NOTIFICATION_DOCUMENTS)

    def newest_version(self) -> int:
        """Return the version in force; 0 if none was saved."""
        return int(self._connection.execute(select(func.max(_COLUMNS.version))).scalar() or 0)

    def find(self, version: int) -> StoredDocument | None:
        """Return a version, or None if it was never saved or is no longer kept."""
        query = select(notification_documents).where(_COLUMNS.version == version)
        row = self._connection.execute(query).mappings().one_or_none()
        return None if row is None else StoredDocument(**dict(row) | {"document": _read(row["document"])})

    def add(self, saved: StoredDocument) -> None:
        """Write a new version; called under `lock`."""
        values = {name: getattr(saved, name) for name in StoredDocument.__slots__}
        encoded = json.dumps(saved.document, allow_nan=False).encode()
        self._connection.execute(insert(notification_documents), values | {"document": encoded})

    def page(self, *, limit: int, before: int | None = None) -> list[dict[str, Any]]:
        """Return versions without their documents, the newest first, before the version ``before``."""
        columns = (_COLUMNS.version, _COLUMNS.saved_at, _COLUMNS.saved_by, _COLUMNS.changes)
        query = select(*columns).order_by(_COLUMNS.version.desc()).limit(limit)
        if before is not None:
            query = query.where(_COLUMNS.version < before)
        return [dict(row) for row in self._connection.execute(query).mappings()]

    def remove_old(self, *, kept: int, before: float) -> None:
        """Remove the versions from before a time, except the ``kept`` newest ones."""
        oldest_kept = self.newest_version() - kept
        self._connection.execute(
            delete(notification_documents).where(_COLUMNS.version <= oldest_kept, _COLUMNS.saved_at < before)
        )


def _read(stored: bytes) -> dict[str, Any]:
    """Return a document. An unreadable one becomes empty, because its text may contain secrets."""
    try:
        document = json.loads(stored)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
