"""The settings of the last start of a collector for each role, in their form for display, without secrets."""

import json
from collections.abc import Mapping

from sqlalchemy import Connection, delete, insert, select

from monitor_server.store.postgresql.advisory_locks import AdvisoryLock, wait_for_lock
from monitor_server.store.tables import recorded_settings

__all__ = ["RecordedSettings"]


class RecordedSettings:
    """Reads and writes recorded settings."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lock(self) -> None:
        """Prevent other collectors from recording settings until the transaction ends; SQLite has one writer anyway."""
        wait_for_lock(self._connection, AdvisoryLock.RECORDED_SETTINGS)

    def read(self, role: str) -> dict[str, str] | None:
        """Return the settings of a role by their names, or None if none were recorded."""
        shown = self._connection.scalar(select(recorded_settings.c.shown).where(recorded_settings.c.role == role))
        return None if shown is None else dict(json.loads(shown))

    def write(self, role: str, settings: Mapping[str, str]) -> None:
        """Replace the settings of a role."""
        self._connection.execute(delete(recorded_settings).where(recorded_settings.c.role == role))
        self._connection.execute(insert(recorded_settings), {"role": role, "shown": json.dumps(dict(settings))})
