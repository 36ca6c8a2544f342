"""The limits of retention that people have saved. The limits of the environment are not stored."""

from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from monitor_server.store.postgresql.advisory_locks import AdvisoryLock, wait_for_lock
from monitor_server.store.tables import retention_limits

__all__ = ["RetentionLimits", "SavedLimit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedLimit:
    """A limit, in days or in steps."""

    name: str
    value: float
    saved_at: float
    saved_by: str


class RetentionLimits:
    """Reads and writes saved limits."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lock(self) -> None:
        """Prevent other saves of a limit until the transaction ends; on SQLite one transaction writes at a time."""
        wait_for_lock(self._connection, AdvisoryLock.RETENTION_LIMITS)

    def all(self) -> dict[str, SavedLimit]:
        """Return the saved limits by name."""
        rows = self._connection.execute(select(retention_limits)).mappings()
        return {row["name"]: SavedLimit(**row) for row in rows}

    def save(self, limit: SavedLimit) -> None:
        """Write a limit, and replace the one with its name."""
        self.remove(limit.name)
        values = {name: getattr(limit, name) for name in SavedLimit.__slots__}
        self._connection.execute(insert(retention_limits), values)

    def remove(self, name: str) -> None:
        """Remove a limit, so that its default applies again."""
        self._connection.execute(delete(retention_limits).where(retention_limits.c.name == name))
