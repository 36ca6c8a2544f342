"""Copies a database while collectors write to it: one consistent snapshot, without what was deleted."""

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import URL, create_engine
from sqlalchemy.exc import DBAPIError

from monitor_server.errors import DatabaseUnusable
from monitor_server.store.address import read_address, shown_url
from monitor_server.store.operations.inspection import inspect_database

__all__ = ["back_up"]

# A password may stand in the query of an address as well.
_PASSWORDS = ("password",)


def back_up(url: str, destination: Path) -> int:
    """Write a backup, and return its size in bytes. The database is not migrated.

    Of SQLite it is a database file; of PostgreSQL an archive of pg_dump, for pg_restore.

    Raises:
        DatabaseUnusable: If the database cannot be read, the destination exists or cannot be written, or pg_dump is
            missing or fails.
    """
    parsed = read_address(url)
    try:
        _require_new(destination)
        with _reserved(destination) as partial:
            _write(parsed, partial)
            partial.rename(destination)
    except UnicodeEncodeError as error:
        raise DatabaseUnusable(
            f"the names of a database and of its backup must be text in UTF-8, got {error.object!r}"
        ) from error
    except OSError as error:
        raise DatabaseUnusable(f"{destination} cannot be written: {error}") from error
    return destination.stat().st_size


def _require_new(destination: Path) -> None:
    if destination.exists():
        raise DatabaseUnusable(f"{destination} is there already; a backup needs a new file")


@contextmanager
def _reserved(destination: Path) -> Iterator[Path]:
    """Yield an empty file beside the destination that no other backup writes to; it is removed where it was not moved.

    What a backup that was killed has left is emptied: its lock has ended with it.
    """
    partial = destination.with_name(f"{destination.name}.partial")
    with partial.open("ab") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DatabaseUnusable(
                f"another backup is writing {destination}; wait until it has ended, or name another file"
            ) from None
        try:
            _require_new(destination)  # the other backup may have ended meanwhile, and what is held is its file
            held.truncate(0)
            yield partial
        finally:
            partial.unlink(missing_ok=True)


def _write(parsed: URL, partial: Path) -> None:
    """Write a backup that is complete and on the disk when it returns."""
    if parsed.get_backend_name() == "sqlite":
        _copy_sqlite(parsed, partial)
    else:
        _dump_postgres(parsed, partial)
    state = inspect_database(parsed.render_as_string(hide_password=False))
    if state is None or state.schema_version is None:
        raise DatabaseUnusable(
            f"the database {shown_url(str(parsed))} has no tables of rlvitals, and a backup of it would be of no "
            "use; set RLVITALS_DATABASE_URL or --database to the one that the collector uses"
        )
    _flush(partial)


def _copy_sqlite(url: URL, destination: Path) -> None:
    if not url.database or not Path(url.database).is_file():
        raise DatabaseUnusable(f"there is no database {shown_url(str(url))}; set RLVITALS_DATABASE_URL or --database")
    engine = create_engine(url)
    try:
        with closing(engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
            # A read transaction of WAL mode, which nobody waits for; the copy holds no pages that are free.
            cursor.execute("VACUUM INTO ?", (str(destination),))
    except DBAPIError as error:
        raise DatabaseUnusable(f"the database {shown_url(str(url))} cannot be copied: {error.orig}") from error
    except engine.dialect.loaded_dbapi.Error as error:
        raise DatabaseUnusable(f"the database {shown_url(str(url))} cannot be copied: {error}") from error
    finally:
        engine.dispose()


def _dump_postgres(url: URL, destination: Path) -> None:
    program = _find_pg_dump()
    if program is None:
        raise DatabaseUnusable(
            "a backup of PostgreSQL needs its program pg_dump, in the server's version or a newer one: "
            "apt-get install postgresql-client, or run pg_dump where the server is"
        )
    # Not in the arguments, which every user of the machine can read.
    password = url.password or next((str(url.query[name]) for name in _PASSWORDS if name in url.query), None)
    secret = {} if password is None else {"PGPASSWORD": str(password)}
    address = url.set(drivername="postgresql", password=None).difference_update_query(_PASSWORDS).render_as_string()
    command = [program, "--format=custom", "--no-owner", "--no-privileges", f"--file={destination}", address]
    done = subprocess.run(command, env=os.environ | secret, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise DatabaseUnusable(f"pg_dump has failed: {' '.join(done.stderr.split())[:500]}")


def _find_pg_dump() -> str | None:
    """Return the newest pg_dump of those of Debian's packages and the one on PATH; None where there is none."""
    found = [str(path) for path in Path("/usr/lib/postgresql").glob("*/bin/pg_dump")]
    if (on_path := shutil.which("pg_dump")) is not None:
        found.insert(0, on_path)
    return max(found, key=_version, default=None)


def _version(program: str) -> tuple[int, ...]:
    """Return the version of a program of PostgreSQL; () where it states none."""
    stated = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    number = re.search(r"\d+(\.\d+)*", stated)
    return () if number is None else tuple(map(int, number[0].split(".")))


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
