"""Numbers rows in the order of their arrival if the database has no sequence for a part of a key."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, func, select

__all__ = ["number_rows"]


def number_rows(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], *, run_id: str | None = None
) -> list[dict[str, Any]]:
    """Return rows with the next numbers of a table, or of one run; PostgreSQL numbers them itself.

    SQLite has one writer at a time, so no other transaction takes the same number.
    """
    if connection.dialect.name != "sqlite":
        return [dict(row) for row in rows]
    query = select(func.coalesce(func.max(table.c.number), 0))
    if run_id is not None:
        query = query.where(table.c.run_id == run_id)
    newest = connection.execute(query).scalar_one()
    return [{**row, "number": number} for number, row in enumerate(rows, start=newest + 1)]
