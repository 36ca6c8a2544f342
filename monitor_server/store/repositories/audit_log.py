"""The audit log of all changes. Entries are appended and removed by age; the name of a deleted project is removed."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from sqlalchemy import Connection, delete, func, insert, select, update

from monitor_server.store.repositories.row_fields import row_fields
from monitor_server.store.tables import audit_entries

__all__ = ["AuditEntry", "AuditLog", "detail_of_run", "reach_of"]

# A clock that was ahead for a while has written entries that stay longer than those behind them. There is no index on
# the time, and a search for one old entry among all would read a large log every few seconds. So that is rare.
FIRST_ENTRIES: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change.

    Attributes:
        at: Seconds since the epoch.
        by: The name of the key or of the user. A caller without either gives a name.
        key_id: The key, or None.
        project: The project that was changed; None if there is more than one.
        action: The action, such as ``run.delete``.
        target: The object of the action: the id of a run, an alert or a key, or the name of a project.
        detail: Further information, in words.
    """

    at: float
    by: str
    key_id: str | None
    project: str | None
    action: str
    target: str
    detail: str = ""


def detail_of_run(run_id: str, detail: str) -> str:
    """Return the detail of an entry whose words are removed when the run is deleted."""
    return f"run {run_id}: {detail}"


def reach_of(project: str | None) -> str:
    """Return the words for the reach of a key; a name in them is removed from the log when the project is deleted."""
    return "every project" if project is None else f"the project {project!r}"


class AuditLog:
    """Reads and appends audit entries."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, entries: Sequence[AuditEntry]) -> None:
        """Append at least one entry, in this order."""
        self._connection.execute(insert(audit_entries), [asdict(entry) for entry in entries])

    def forget_project(self, project: str) -> None:
        """Remove the name of a project whose last run is deleted; action, time and author remain."""
        here = audit_entries.c.project == project
        named = here & (audit_entries.c.target == project)
        self._connection.execute(update(audit_entries).where(named), {"target": "a deleted project"})
        words = reach_of(project)
        reached = here & audit_entries.c.detail.contains(words, autoescape=True)
        detail = func.replace(audit_entries.c.detail, words, "a deleted project")
        self._connection.execute(update(audit_entries).where(reached).values(detail=detail))
        self._connection.execute(update(audit_entries).where(here), {"project": None})

    def forget_run(self, run_id: str) -> None:
        """Remove the words of entries about a run that is deleted; action, time and author remain."""
        here = audit_entries.c.detail.startswith(detail_of_run(run_id, ""), autoescape=True)
        self._connection.execute(update(audit_entries).where(here), {"detail": "of a deleted run"})

    def has_old(self, *, before: float, is_whole: bool = False) -> bool:
        """Return whether one of the first entries is from before a time, or any one if the whole log is read."""
        entries = select(audit_entries.c.at).order_by(audit_entries.c.number)
        first = (entries if is_whole else entries.limit(FIRST_ENTRIES)).subquery()
        at = self._connection.execute(select(func.min(first.c.at))).scalar()
        return at is not None and at < before

    def remove_old(self, *, before: float, limit: int) -> int:
        """Remove some entries from before a time, and return their number."""
        some = select(audit_entries.c.number).where(audit_entries.c.at < before).limit(limit)
        return self._connection.execute(delete(audit_entries).where(audit_entries.c.number.in_(some))).rowcount

    def page(self, *, limit: int, before: int | None = None, project: str | None = None) -> list[dict[str, Any]]:
        """Return entries of one project or of all, the newest first, before the one numbered ``before``."""
        query = select(audit_entries).order_by(audit_entries.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(audit_entries.c.number < before)
        if project is not None:
            query = query.where(audit_entries.c.project == project)
        return [row_fields(row) for row in self._connection.execute(query).mappings()]
