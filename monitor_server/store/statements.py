"""Statements that are compiled once for each kind of database, for what every batch does.

SQLAlchemy takes longer to prepare a statement than SQLite to execute it. What comes back is as the driver returns it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, CursorResult
from sqlalchemy.sql import ClauseElement

__all__ = ["Statement"]


class Statement:
    """A statement with named parameters, none of which is a list."""

    def __init__(self, clause: ClauseElement, *, columns: Sequence[str] | None = None) -> None:
        """Keep a statement.

        Args:
            clause: The statement.
            columns: The columns that an insert or an update sets, if the clause does not name them.
        """
        self._clause = clause
        self._columns = None if columns is None else list(columns)
        self._compiled: dict[str, tuple[str, list[str] | None]] = {}

    def execute(self, connection: Connection, values: Mapping[str, Any]) -> CursorResult[Any]:
        """Execute it once."""
        sql, names = self._prepare(connection)
        return connection.exec_driver_sql(sql, dict(values) if names is None else tuple(values[name] for name in names))

    def execute_many(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        """Execute it for each row, of which there must be at least one, and return how many rows it has changed."""
        sql, names = self._prepare(connection)
        given = [dict(row) for row in rows] if names is None else [tuple(row[name] for name in names) for row in rows]
        return connection.exec_driver_sql(sql, given).rowcount

    def _prepare(self, connection: Connection) -> tuple[str, list[str] | None]:
        dialect = connection.dialect
        prepared = self._compiled.get(dialect.name)
        if prepared is None:
            compiled = self._clause.compile(dialect=dialect, column_keys=self._columns)
            names = getattr(compiled, "positiontup", None) if dialect.positional else None
            prepared = self._compiled[dialect.name] = (str(compiled), names)
        return prepared
