"""Which migrations a database has had, and which is the newest that this version knows.

Both are read without Alembic, whose import is a twentieth of a start: most databases that are opened need no migration.
"""

import functools
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, text

__all__ = ["MIGRATIONS", "newest_schema", "schema_version"]

MIGRATIONS: Final = Path(__file__).parents[1] / "migrations"
SQLITE_HAS_TABLE: Final = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'"
POSTGRES_HAS_TABLE: Final = "SELECT count(to_regclass('alembic_version'))"


@functools.cache
def newest_schema() -> str:
    """Return the newest migration that this version of rlvitals knows: the last by the names of the files."""
    return max(path.name for path in (MIGRATIONS / "versions").glob("0*.py")).partition("_")[0]


def schema_version(connection: Connection) -> str | None:
    """Return the newest migration that a database has had; None where none of our tables is there yet."""
    has_table = SQLITE_HAS_TABLE if connection.dialect.name == "sqlite" else POSTGRES_HAS_TABLE
    if not connection.execute(text(has_table)).scalar_one():
        return None
    version: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return version
