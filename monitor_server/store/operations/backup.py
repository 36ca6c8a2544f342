"""Copies a database while collectors write to it: one consistent snapshot, without data that was removed before."""

import fcntl
import os
import re
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from sqlalchemy import URL, create_engine
from sqlalchemy.exc import DBAPIError

from monitor_server.errors import DatabaseUnusable
from monitor_server.store.address import read_address, shown_url
from monitor_server.store.operations.archive_checks import (
    COUNT_DELETIONS,
    MAKE_AGAIN,
    check_archive,
    choose_tables,
    count_deletions,
    is_of_migration,
    of_others,
    read_schema,
)
from monitor_server.store.operations.inspection import inspect_database
from monitor_server.store.postgresql.connections import given_options
from monitor_server.text_safety.printable import one_line

__all__ = ["Backup", "back_up"]

CONNECT_SECONDS: Final = 10
# A large backup takes hours. A table with many deleted rows is read for minutes before a byte of it is written.
SILENT_SECONDS: Final = 600.0
AGAIN_SECONDS: Final = 0.05  # an interrupt has no effect before the statement has begun


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A written backup.

    Attributes:
        size_bytes: Its size.
        deletions: The number of deleted runs that it still contains, because their rows were not removed yet.
    """

    size_bytes: int
    deletions: int


def back_up(url: str, destination: Path) -> Backup:
    """Write a backup. The database is not migrated.

    For SQLite, it is a database file; for PostgreSQL, an archive of pg_dump, for pg_restore.

    Raises:
        DatabaseUnusable: If the database cannot be read, the destination exists or cannot be written, or pg_dump is
            missing or fails.
    """
    parsed = read_address(url)
    try:
        _require_new(destination)
        with _reserve_file(destination) as (partial, lock):
            deletions = _write(parsed, partial, lock)
            partial.rename(destination)
            _flush(destination.parent)
    except UnicodeEncodeError as error:
        raise DatabaseUnusable(
            f"the names of a database and of its backup must be text in UTF-8, got {error.object!r}"
        ) from error
    except OSError as error:
        raise DatabaseUnusable(f"{destination} cannot be written: {error}") from error
    return Backup(size_bytes=destination.stat().st_size, deletions=deletions)


def _require_new(destination: Path) -> None:
    if destination.exists():
        raise DatabaseUnusable(f"{destination} is there already; a backup needs a new file")


@contextmanager
def _reserve_file(destination: Path) -> Iterator[tuple[Path, int]]:
    """Yield an empty file beside the destination that no other backup writes to, and the descriptor that locks it.

    The file is removed if it was not moved. The file of a killed backup is emptied and used again, because its lock has
    ended with its process.
    """
    partial = destination.with_name(f"{destination.name}.partial")
    with _lock_file(partial, destination) as held:
        try:
            # Another backup may have ended meanwhile.
            _require_new(destination)
            held.truncate(0)
            yield partial, held.fileno()
        finally:
            partial.unlink(missing_ok=True)
            partial.with_name(f"{partial.name}-journal").unlink(missing_ok=True)  # of SQLite, in a killed backup


def _lock_file(partial: Path, destination: Path) -> BinaryIO:
    """Open and lock a file, which is made if it is not there."""
    while True:
        with ExitStack() as stack:
            held = stack.enter_context(open(partial, "ab", opener=_open_private))
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DatabaseUnusable(
                    f"another backup is writing {destination}; wait until it has ended, or name another file"
                ) from None
            # Another backup may have ended before the lock, and have moved or removed the file.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(held.fileno()), partial.lstat()):
                    stack.pop_all()
                    return held


def _open_private(path: str, flags: int) -> int:
    """Open a file for its owner alone, because a backup contains secrets of sessions. A link is not followed."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _write(parsed: URL, partial: Path, lock: int) -> int:
    """Write a complete backup with our tables, on the disk; return the number of deleted runs that it contains."""
    if parsed.get_backend_name() == "sqlite":
        deletions = _copy_sqlite(parsed, partial)
    else:
        deletions = _dump_postgres(parsed, partial, lock)
    _flush(partial)
    return deletions


def _copy_sqlite(url: URL, destination: Path) -> int:
    if not url.database or not Path(url.database).is_file():
        raise DatabaseUnusable(f"there is no database {shown_url(str(url))}; set RLVITALS_DATABASE_URL or --database")
    engine = create_engine(url)
    try:
        with closing(engine.raw_connection()) as connection, ThreadPoolExecutor(1) as thread:
            # A read transaction of WAL mode, which delays no other transaction. The copy contains no free pages.
            driver: Any = connection.driver_connection
            try:
                thread.submit(driver.execute, "VACUUM INTO ?", (str(destination),)).result()
            except KeyboardInterrupt:  # it reaches the main thread alone, and not while that executes a statement
                after_copy = thread.submit(bool)
                while wait([after_copy], AGAIN_SECONDS).not_done:
                    driver.interrupt()
                raise
    except (DBAPIError, engine.dialect.loaded_dbapi.Error) as error:
        reason = one_line(getattr(error, "orig", error))
        raise DatabaseUnusable(f"the database {shown_url(str(url))} cannot be copied: {reason}") from error
    finally:
        engine.dispose()
    state = inspect_database(URL.create("sqlite", database=str(destination)).render_as_string())
    if state is None or state.schema_version is None:
        raise of_others(url)
    with closing(sqlite3.connect(destination)) as copy, suppress(sqlite3.OperationalError):  # as count_deletions
        return int(copy.execute(COUNT_DELETIONS).fetchone()[0])
    return 0


def _dump_postgres(url: URL, destination: Path, lock: int) -> int:
    from psycopg import ProgrammingError  # noqa: PLC0415 - psycopg is an extra
    from psycopg.conninfo import make_conninfo  # noqa: PLC0415

    program = _find_pg_dump()
    if program is None:
        raise DatabaseUnusable(
            "a backup of PostgreSQL needs its program pg_dump, in the server's version or a newer one: "
            "apt-get install postgresql-client, or run pg_dump where the server is"
        )
    _, parameters = url.get_dialect()().create_connect_args(url)
    # Every user of the machine can read the arguments, so the password is not passed in them.
    password = parameters.pop("password", None)
    parameters.setdefault("connect_timeout", CONNECT_SECONDS)
    if "options" in parameters:
        parameters["options"] = given_options(url)
    secret = {} if password is None else {"PGPASSWORD": str(password)}
    try:
        address = make_conninfo(**parameters)
    except ProgrammingError as error:
        raise DatabaseUnusable(f"the database {shown_url(str(url))} cannot be addressed: {error}") from error
    tables, deletions = choose_tables(url, address, password), count_deletions(address, password)
    command = [program, "--format=custom", "--no-owner", "--no-privileges", tables, f"--file={destination}", address]
    # The program holds the lock as well, because it continues to write if this process is killed.
    with subprocess.Popen(  # noqa: S603
        command, env=os.environ | secret, pass_fds=[lock], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            errors = _wait(process, destination)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise DatabaseUnusable(
            f"pg_dump has failed: {one_line(errors)[:500]}{MAKE_AGAIN if is_of_migration(errors) else ''}"
        )
    check_archive(destination, Path(program).with_name("pg_restore"), now=read_schema(address, password))
    return deletions


def _wait(process: subprocess.Popen[str], written: Path) -> str:
    """Wait for the end of a program, and return its errors.

    Raises:
        DatabaseUnusable: If its file has not grown for `SILENT_SECONDS`.
    """
    size, grown_at = -1, time.monotonic()
    while True:
        try:
            return process.communicate(timeout=min(1.0, SILENT_SECONDS))[1]
        except subprocess.TimeoutExpired:
            if (now := written.stat().st_size) != size:
                size, grown_at = now, time.monotonic()
            elif time.monotonic() - grown_at >= SILENT_SECONDS:
                raise DatabaseUnusable(
                    f"pg_dump has written nothing for {SILENT_SECONDS:.0f} s: the server does not answer, or something "
                    "holds a lock on a table (pg_locks shows it); the backup was ended, so make it again afterwards"
                ) from None


def _find_pg_dump() -> str | None:
    """Return the newest pg_dump among Debian's packages and the one on PATH; None if there is none."""
    found = [str(path) for path in Path("/usr/lib/postgresql").glob("*/bin/pg_dump")]
    if (on_path := shutil.which("pg_dump")) is not None:
        found.insert(0, on_path)
    return max(found, key=_version, default=None)


def _version(program: str) -> tuple[int, ...]:
    """Return the version of a program of PostgreSQL; () if it prints none."""
    stated = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    number = re.search(r"\d+(\.\d+)*", stated)
    return () if number is None else tuple(map(int, number[0].split(".")))


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
