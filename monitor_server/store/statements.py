"""Statements for the work of every batch, whose texts are built once.

SQLAlchemy takes longer to prepare a statement than SQLite takes to execute it. Results are returned as the driver
returns them.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from sqlalchemy import Connection, Dialect, Executable, Table

__all__ = ["MAX_PARAMETERS", "Insertion", "fetch_tuples", "in_parts", "in_ranges"]

Value = TypeVar("Value")

# SQLite takes at most 32,766 parameters in a statement, and plans one of many values slowly.
MAX_PARAMETERS = 1_000
# The sizes are few, so that the driver keeps each statement prepared.
ROWS_PER_STATEMENT = (64, 16, 8, 4, 2, 1)


class Insertion:
    """An insert of many rows into a table, by few statements.

    SQLite's driver releases and takes Python's lock for each row of `executemany`. While another thread computes, each
    release causes a wait of up to 5 ms. So SQLite executes statements of many rows. On PostgreSQL one statement
    receives each column as an array in the binary format. This takes a third of the processor time of `executemany` in
    this process, and three fifths in the server.
    """

    def __init__(self, table: Table, *, columns: Sequence[str]) -> None:
        """Keep the table and the names of a row's values, in their order."""
        self._types = [table.c[name].type for name in columns]
        row = f"({', '.join('?' * len(columns))})"
        self._into = f"INSERT INTO {table.name} ({', '.join(columns)})"
        self._of_rows = {size: f"{self._into} VALUES {', '.join([row] * size)}" for size in ROWS_PER_STATEMENT}
        self._of_arrays: str | None = None

    def execute(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert rows."""
        if connection.dialect.name != "sqlite":
            if rows:
                connection.exec_driver_sql(self.of_arrays(connection.dialect), self.to_arrays(rows))
            return
        begin = 0
        for size in ROWS_PER_STATEMENT:
            while len(rows) - begin >= size:
                values = tuple(chain.from_iterable(rows[begin : begin + size]))
                connection.exec_driver_sql(self._of_rows[size], values)
                begin += size

    def of_arrays(self, dialect: Dialect) -> str:
        """Return the statement for PostgreSQL that receives each column as an array; a condition may follow it."""
        if self._of_arrays is None:
            arrays = ", ".join(f"%b::{kind.compile(dialect)}[]" for kind in self._types)
            self._of_arrays = f"{self._into} SELECT * FROM unnest({arrays})"  # noqa: S608 - our names
        return self._of_arrays

    def to_arrays(self, rows: Sequence[tuple[Any, ...]]) -> tuple[list[Any], ...]:
        """Return the values of that statement, a list for each column."""
        return tuple(map(list, zip(*rows, strict=True))) if rows else tuple([] for _ in self._types)


def fetch_tuples(connection: Connection, query: Executable, asked: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
    """Return all rows of a query in the driver's form, for columns that need no conversion.

    SQLAlchemy's own rows would double the time of a long series.
    """
    cursor = connection.execute(query, asked).cursor
    return [] if cursor is None else cursor.fetchall()


def in_parts(values: Collection[Value]) -> Iterator[list[Value]]:
    """Yield values in parts that fit into one statement."""
    ordered = list(values)
    for begin in range(0, len(ordered), MAX_PARAMETERS):
        yield ordered[begin : begin + MAX_PARAMETERS]


def in_ranges(numbers: Collection[int], *, gap: int) -> Iterator[list[int]]:
    """Yield numbers in ascending order, in parts whose consecutive numbers differ by at most ``gap``."""
    ordered = sorted(numbers)
    begin = 0
    for end, number in enumerate(ordered, start=1):
        if end == len(ordered) or ordered[end] - number > gap:
            yield ordered[begin:end]
            begin = end
