"""Copies the write-ahead log of a SQLite database into the database file, and shortens a long log.

SQLite writes the log from its beginning again once all of it is copied, some 16 MB at a time, and never shortens it by
itself. What it wrote behind that, while a long reader such as a backup held the log, would stay there.
"""

import sqlite3
import time
from contextlib import closing
from typing import Final, Literal

from sqlalchemy import Engine

__all__ = ["LONGEST_BYTES", "copy_log", "shorten_log", "used_bytes"]

# Twice the log of usual writes, which is used again and needs no shortening.
LONGEST_BYTES: Final = 32 * 1024 * 1024
# How long readers that overlap may keep the log from being emptied. Writers wait meanwhile.
READERS_MS: Final = 500
# How long another process may copy the log before its bytes in use count as unknown.
COPY_SECONDS: Final = 1.0
COPY_PAUSE_SECONDS: Final = 0.01
# SQLite's file format: the log has a header, and each page in it has one.
HEADER_BYTES: Final = 32
PAGE_HEADER_BYTES: Final = 24


def copy_log(engine: Engine) -> bool:
    """Copy what no reader needs in its older form, wait for nobody, and return whether the whole log is copied.

    Raises:
        sqlite3.Error: If one of the files cannot be read or written.
    """
    is_busy, pages, copied, _ = _checkpoint(engine, "PASSIVE")
    return not is_busy and pages == copied


def used_bytes(engine: Engine) -> int:
    """Return the bytes of the log that are in use.

    Raises:
        sqlite3.Error: If one of the files cannot be read or written, or if another process copies the log for so long
            that it is not known.
    """
    until = time.monotonic() + COPY_SECONDS
    while True:
        is_busy, pages, _, page_bytes = _checkpoint(engine, "PASSIVE")
        if not is_busy:
            return HEADER_BYTES + pages * (PAGE_HEADER_BYTES + page_bytes) if pages > 0 else 0
        if time.monotonic() > until:
            raise sqlite3.OperationalError("another process copies the write-ahead log")
        time.sleep(COPY_PAUSE_SECONDS)


def shorten_log(engine: Engine) -> None:
    """Copy the whole log and empty its file, unless readers or another writer use it for longer than `READERS_MS`.

    Raises:
        sqlite3.Error: If one of the files cannot be read or written.
    """
    _checkpoint(engine, "TRUNCATE", wait_ms=READERS_MS)


def _checkpoint(
    engine: Engine, mode: Literal["PASSIVE", "TRUNCATE"], *, wait_ms: int = 0
) -> tuple[bool, int, int, int]:
    """Return whether something else kept SQLite from it, the pages of the log, those copied, and a page's bytes."""
    # A connection of the engine would begin a transaction, in which SQLite copies nothing.
    with closing(engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
        usual = cursor.execute("PRAGMA busy_timeout").fetchone()[0]
        cursor.execute(f"PRAGMA busy_timeout = {wait_ms}")
        try:
            is_busy, pages, copied = cursor.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
            (page_bytes,) = cursor.execute("PRAGMA page_size").fetchone()
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {usual}")
    return bool(is_busy), pages, copied, page_bytes
