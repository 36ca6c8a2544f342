"""Views of the fleet that people save under a name."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from monitor_server.store.postgresql.advisory_locks import AdvisoryLock, wait_for_lock
from monitor_server.store.tables import saved_views

__all__ = ["SavedView", "SavedViews"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedView:
    """A saved view.

    Attributes:
        id: It stays the same when the view is saved again under its name.
        name: Unique among the views of its project, or among the views without a project.
        project: The project of the key that has saved it; None if the key may access every project.
        query: The settings, as the query of an address.
        saved_at: In seconds since the epoch.
        saved_by: The person or key that saved it last.
    """

    id: str
    name: str
    project: str | None
    query: str
    saved_at: float
    saved_by: str


class SavedViews:
    """Reads and writes saved views."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lock(self) -> None:
        """Prevent other saves of a view until the transaction ends; on SQLite one transaction writes at a time."""
        wait_for_lock(self._connection, AdvisoryLock.SAVED_VIEWS)

    def find(self, view_id: str) -> SavedView | None:
        """Return one view, or None."""
        row = self._connection.execute(select(saved_views).where(saved_views.c.id == view_id)).mappings().one_or_none()
        return None if row is None else _view(row)

    def count(self, project: str | None) -> int:
        """Return the number of views of a project, or of those without a project."""
        query = select(func.count()).select_from(saved_views).where(saved_views.c.scope == _scope(project))
        return int(self._connection.execute(query).scalar_one())

    def find_name(self, name: str, *, project: str | None) -> SavedView | None:
        """Return the view with a name among those of a project, or among those without one; None if there is none."""
        here = (saved_views.c.scope == _scope(project)) & (saved_views.c.name == name)
        row = self._connection.execute(select(saved_views).where(here)).mappings().one_or_none()
        return None if row is None else _view(row)

    def add(self, view: SavedView) -> None:
        """Write a new view."""
        self._connection.execute(insert(saved_views), asdict(view) | {"scope": _scope(view.project)})

    def replace(self, view: SavedView) -> None:
        """Write a view, and replace the one with its id."""
        self._connection.execute(update(saved_views).where(saved_views.c.id == view.id), asdict(view))

    def remove(self, view_id: str) -> None:
        """Remove a view."""
        self._connection.execute(delete(saved_views).where(saved_views.c.id == view_id))

    def remove_project(self, project: str) -> None:
        """Remove the views of a project."""
        self._connection.execute(delete(saved_views).where(saved_views.c.project == project))

    def page(self, *, limit: int, before: int | None = None, project: str | None = None) -> list[dict[str, Any]]:
        """Return views with their numbers, of one project or all, the newest first, before the view ``before``."""
        query = select(saved_views).order_by(saved_views.c.number.desc()).limit(limit)
        if project is not None:
            query = query.where(saved_views.c.project == project)
        if before is not None:
            query = query.where(saved_views.c.number < before)
        rows = self._connection.execute(query).mappings()
        return [{"number": row["number"], "view": _view(row)} for row in rows]


def _view(row: Mapping[Any, Any]) -> SavedView:
    return SavedView(**{name: row[name] for name in SavedView.__slots__})


def _scope(project: str | None) -> str:
    """Return the project as a text that is never NULL, to make names unique within it."""
    return "all" if project is None else f"project:{project}"
