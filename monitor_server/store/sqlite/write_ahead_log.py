"""Copies the write-ahead log of a SQLite database into the database file, and shortens a long log.

SQLite writes the log from its beginning again once all of it is copied, some 16 MB at a time, and never shortens it by
itself. What it wrote behind that, while a long reader such as a backup held the log, would stay there.
"""

from contextlib import closing
from typing import Final, Literal

from sqlalchemy import Engine

__all__ = ["LONGEST_BYTES", "copy_log", "shorten_log"]

LONGEST_BYTES = 32 * 1024 * 1024
# SQLite's file format: the log has a header, and each page in it has one.
HEADER_BYTES: Final = 32
PAGE_HEADER_BYTES: Final = 24


def copy_log(engine: Engine) -> tuple[int, bool]:
    """Copy what no reader needs in its older form, and wait for nobody.

    Returns:
        The bytes of the log that are in use, and whether all of them are copied.

    Raises:
        sqlite3.Error: If one of the files cannot be read or written.
    """
    return _checkpoint(engine, "PASSIVE")


def shorten_log(engine: Engine) -> None:
    """Copy the whole log and empty its file, unless another reader or writer uses it now.

    Raises:
        sqlite3.Error: If one of the files cannot be read or written.
    """
    _checkpoint(engine, "TRUNCATE")


def _checkpoint(engine: Engine, mode: Literal["PASSIVE", "TRUNCATE"]) -> tuple[int, bool]:
    # A connection of the engine would begin a transaction, in which SQLite copies nothing.
    with closing(engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
        usual = cursor.execute("PRAGMA busy_timeout").fetchone()[0]
        cursor.execute("PRAGMA busy_timeout = 0")
        try:
            _, pages, copied = cursor.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
            (page_bytes,) = cursor.execute("PRAGMA page_size").fetchone()
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {usual}")
    return (HEADER_BYTES + pages * (PAGE_HEADER_BYTES + page_bytes) if pages > 0 else 0), pages == copied
