"""The migrations that a database has had, and the newest migration of this version.

Both are read without Alembic, whose import takes a twentieth of a start: most databases need no migration.
"""

import functools
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, text

from monitor_server.errors import DatabaseMigrated, DatabaseUnusable
from monitor_server.store.installation import OUR_TABLE

__all__ = ["MIGRATIONS", "newest_schema", "require_own_schema", "schema_version"]

MIGRATIONS: Final = Path(__file__).parents[1] / "migrations"
SQLITE_HAS_TABLE: Final = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = :name"
POSTGRES_HAS_TABLE: Final = "SELECT count(to_regclass(:name))"


@functools.cache
def newest_schema() -> str:
    """Return the newest migration of this version of rlvitals: the last one by the names of the files."""
    return max(path.name for path in (MIGRATIONS / "versions").glob("0*.py")).partition("_")[0]


def schema_version(connection: Connection) -> str | None:
    """Return the newest migration that a database has had; None if it has none of our tables yet.

    Raises:
        DatabaseUnusable: If the migrations belong to another program.
    """
    if not _has_table(connection, "alembic_version"):
        return None
    versions = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    if versions and not _has_table(connection, OUR_TABLE):
        raise DatabaseUnusable(
            "the database holds the tables of another program; set RLVITALS_DATABASE_URL or --database to a database, "
            "or a schema (docs/operations.md), that rlvitals has for itself"
        )
    return versions[0] if versions else None


def require_own_schema(connection: Connection) -> None:
    """Check that a database still has the schema of this version, which it had when it was opened.

    A migration locks the tables that it changes until its commit. So a transaction that asks at its end either precedes
    the migration, or finds the newer schema and is undone.

    Raises:
        DatabaseMigrated: If another version has migrated the database since then, or a backup was restored into it.
    """
    found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    if found != newest_schema():
        raise DatabaseMigrated(
            f"the database must have the schema {newest_schema()} of this collector, and it has {found}, since another "
            "version of rlvitals has migrated or restored it; restart this collector with a version that knows this "
            "schema, or stop it"
        )


def _has_table(connection: Connection, name: str) -> bool:
    statement = SQLITE_HAS_TABLE if connection.dialect.name == "sqlite" else POSTGRES_HAS_TABLE
    return bool(connection.execute(text(statement), {"name": name}).scalar_one())
