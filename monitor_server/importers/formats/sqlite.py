"""Opens other programs' SQLite files to read them: nothing in the file is executed or changed."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from monitor_server.importers.protocol import LogError

__all__ = ["MAGIC", "open_read_only", "tables"]

MAGIC = b"SQLite format 3\x00"


@contextmanager
def open_read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading.

    Raises:
        LogError: If it cannot be read, also while it is being read.
    """
    try:
        connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True, timeout=5.0)
    except sqlite3.Error as error:
        raise LogError(f"{path} must be a readable SQLite database: {error}") from error
    try:
        connection.text_factory = lambda text: text.decode(errors="replace")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        yield connection
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:  # a damaged file's own texts and numbers
        raise LogError(f"{path} must be a readable SQLite database: {error}") from error
    finally:
        connection.close()


def tables(path: Path) -> dict[str, set[str]]:
    """Return the columns of each table; empty where the file cannot be read. Views are not listed."""
    try:
        with open_read_only(path) as connection:
            names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {
                name: {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))}
                for name in names
            }
    except LogError:
        return {}
