"""Opens other programs' SQLite files for reading: no part of the file is executed or changed."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from monitor_server.importers.protocol import LogError

__all__ = ["MAGIC", "fault", "open_read_only", "tables"]

MAGIC = b"SQLite format 3\x00"
WAL_VERSIONS = b"\x02\x02"  # in bytes 18 and 19 of a database in WAL mode
LOCK_SECONDS = 1.0  # the longest lock by a writer; a transaction of a logger takes milliseconds


@contextmanager
def open_read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading; no file is created beside it.

    Raises:
        LogError: If it cannot be opened or read.
    """
    try:
        mode = "mode=ro&immutable=1" if _is_closed_wal(path) else "mode=ro"
        connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?{mode}", uri=True, timeout=LOCK_SECONDS)
    except (sqlite3.Error, OSError) as error:
        raise LogError(f"{path} must be a readable SQLite database: {error}") from error
    try:
        connection.text_factory = lambda text: text.decode(errors="replace")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        yield connection
    # Errors of a damaged file, its texts and its numbers.
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        raise LogError(f"{path} must be a readable SQLite database: {error}") from error
    finally:
        connection.close()


def _is_closed_wal(path: Path) -> bool:
    """Whether a database is in WAL mode and no program has it open.

    SQLite would create two files beside such a database to read it, leave them there, and fail in a read-only folder. A
    database that is being written has its log beside it, and is opened with SQLite's locks.
    """
    with path.open("rb") as file:
        versions = file.read(20)[18:]
    real = path.resolve()  # SQLite keeps the log beside this path
    return versions == WAL_VERSIONS and not real.with_name(f"{real.name}-wal").exists()


def fault(path: Path) -> str | None:
    """Return why a file that begins as a SQLite database cannot be read; None if it can."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return "it is a compressed SQLite database; decompress it first"
    try:
        with open_read_only(path) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except LogError as error:
        if isinstance(error.__cause__, sqlite3.OperationalError) and "locked" in str(error.__cause__):
            return "another program keeps this SQLite database locked; check it when that has ended, or check a copy"
        return f"it is an SQLite database that cannot be read ({error.__cause__})"
    return None


def tables(path: Path) -> dict[str, set[str]]:
    """Return the columns of each table; empty if the file cannot be read. Views are not listed."""
    try:
        with open_read_only(path) as connection:
            names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {
                name: {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))}
                for name in names
            }
    except LogError:
        return {}
