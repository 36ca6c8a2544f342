"""Chooses the tables for pg_dump, and checks that its archive is a whole backup of them."""

import re
import subprocess
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from sqlalchemy import URL

from monitor_server.errors import DatabaseUnusable
from monitor_server.store.address import shown_url
from monitor_server.store.installation import OUR_TABLE, POSTGRES_SCHEMA
from monitor_server.store.tables import metadata
from monitor_server.text_safety.printable import one_line

__all__ = [
    "COUNT_DELETIONS",
    "MAKE_AGAIN",
    "check_archive",
    "choose_tables",
    "count_deletions",
    "is_of_migration",
    "of_others",
    "read_schema",
]

COUNT_DELETIONS: Final = "SELECT count(*) FROM runs WHERE deleted_at IS NOT NULL"
VERSION_TABLE: Final = "alembic_version"
MAKE_AGAIN: Final = "; a collector has migrated the tables meanwhile, so make the backup again"
# What PostgreSQL says of an index, a table or a column that has gone since the snapshot of the one who asks.
GONE: Final = re.compile(r'cache lookup failed|could not open relation|column "\w+" of relation "\w+" does not exist')

NAMES: Final = ", ".join(f"'{name}'" for name in metadata.tables)
ELSEWHERE: Final = f"""
SELECT quote_ident(nspname) || '.' || relname FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid
WHERE relname IN ({NAMES}) AND relkind = 'r' AND pg_table_is_visible(pg_class.oid)
AND relnamespace <> (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('{OUR_TABLE}')) ORDER BY 1"""  # noqa: S608 - our names


def is_of_migration(errors: str) -> bool:
    """Return whether pg_dump has failed because something was gone that its snapshot still named."""
    return GONE.search(errors) is not None


def choose_tables(url: URL, address: str, password: object) -> str:
    """Return the option of pg_dump for the schema with our tables: its user may not read the other ones.

    Raises:
        DatabaseUnusable: If the database has no tables of ours, has some in a second schema, or cannot be read.
    """
    found = _ask(address, password, POSTGRES_SCHEMA)
    if not found:
        raise of_others(url)
    quoted = '"{}"'.format(found[0].replace('"', '""'))
    if elsewhere := _ask(address, password, ELSEWHERE):
        raise DatabaseUnusable(
            f"the tables of rlvitals must be in one schema, which the backup holds; {found[0]} has most of them, and "
            f"elsewhere are {', '.join(elsewhere)}: stop the collectors, and move each by "
            f"ALTER TABLE {elsewhere[0]} SET SCHEMA {quoted}"
        )
    # An archive of the whole schema makes the schema, and every new database has this one.
    return "--table=public.*" if found == ["public"] else f"--schema={quoted}"


def read_schema(address: str, password: object) -> str:
    """Return the schema that a database has; ask as soon as pg_dump has ended, because a migration may have waited."""
    return ",".join(_ask(address, password, f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608 - our name


def count_deletions(address: str, password: object) -> int:
    """Return the number of runs that are being deleted; ask before pg_dump begins, because their deletion may end."""
    # The tables of an early version have no such column. A migration is not waited for, because pg_dump must notice it.
    with suppress(DatabaseUnusable):
        return int(_ask(address, password, COUNT_DELETIONS, lock="LOCK TABLE runs IN ACCESS SHARE MODE NOWAIT")[0])
    return 0


def _ask(address: str, password: object, question: str, *, lock: str | None = None) -> list[str]:
    from psycopg import Error  # noqa: PLC0415 - psycopg is an extra

    from monitor_server.store.postgresql.bounded_connection import BoundedConnection  # noqa: PLC0415

    secret = {} if password is None else {"password": str(password)}
    try:
        with closing(BoundedConnection.connect(address, **secret)) as connection:
            if lock is not None:
                connection.execute(lock)
            return [row[0] for row in connection.execute(question)]
    except Error as error:
        raise DatabaseUnusable(f"the schema of the database cannot be read: {one_line(error)[:500]}") from error


def check_archive(archive: Path, program: Path, *, now: str) -> None:
    """Check that an archive can be read and has the schema that the database has now.

    pg_dump takes its snapshot before it locks the tables. After a migration between the two, it writes the old rows
    with a part of the new schema, which no version can open.
    """
    rows = _read_archive(program, "--data-only", f"--table={VERSION_TABLE}", "--file=-", archive)
    found = re.search(rf"^COPY .*{VERSION_TABLE} \(.*\n(.*)$", rows, re.MULTILINE)
    if found is None or found[1] != now:
        raise DatabaseUnusable(f"the database has the schema {now} now, and the backup has another one{MAKE_AGAIN}")


def _read_archive(program: Path, *arguments: str | Path) -> str:
    """Return what pg_restore prints about an archive."""
    try:
        return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout  # noqa: S603
    except (OSError, subprocess.CalledProcessError) as error:
        reason = one_line(getattr(error, "stderr", None) or error)[:500]
        raise DatabaseUnusable(f"the backup cannot be checked by {program}: {reason}") from error


def of_others(url: URL) -> DatabaseUnusable:
    """Return the error about a database without our tables."""
    return DatabaseUnusable(
        f"the database {shown_url(str(url))} has no tables of rlvitals, and a backup of it would be of no use; set "
        "RLVITALS_DATABASE_URL or --database to the one that the collector uses"
    )
