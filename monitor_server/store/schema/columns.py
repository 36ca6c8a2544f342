"""Finds the columns that a database lacks although it has had every migration."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, text

from monitor_server.store.tables import metadata

__all__ = ["missing_columns", "name_columns"]

OF_SQLITE: Final = (
    "SELECT found.name, c.name FROM sqlite_master AS found, pragma_table_xinfo(found.name) AS c "
    "WHERE found.type = 'table' AND found.name IN :names"
)
OF_POSTGRES: Final = (
    "SELECT relname, attname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid "
    "WHERE relname IN :names AND pg_table_is_visible(pg_class.oid) AND attnum > 0 AND NOT attisdropped"
)


def missing_columns(connection: Connection) -> list[str]:
    """Return the columns of our tables that a database with the newest schema lacks, such as ``runs.log_end``.

    There are some where a migration was edited after it had run here, or where somebody has removed them.
    """
    query = text(OF_SQLITE if connection.dialect.name == "sqlite" else OF_POSTGRES)
    rows = connection.execute(query.bindparams(bindparam("names", expanding=True)), {"names": list(metadata.tables)})
    found = {f"{table}.{column}" for table, column in rows}
    return sorted({f"{table.name}.{column.name}" for table in metadata.tables.values() for column in table.c} - found)


def name_columns(missing: Sequence[str]) -> str:
    """Return the first of the missing columns, and how many more there are."""
    return f"{missing[0]} and {len(missing) - 1} more" if len(missing) > 1 else missing[0]
