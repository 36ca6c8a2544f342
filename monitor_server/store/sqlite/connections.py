"""Makes and prepares connections to a SQLite file, so that it behaves as PostgreSQL does."""

import os
from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection as SqliteConnection
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, event

__all__ = [
    "database_path",
    "forbid_new_file",
    "is_in_memory",
    "make_private_file",
    "prepare_sqlite",
    "set_temporary_store",
]

BUSY_TIMEOUT_SECONDS: Final = 10.0


def database_path(engine: Engine) -> Path | None:
    """Return the file of a database; None if it is on a server, or if the address is a URI of SQLite."""
    name = engine.url.database
    if engine.dialect.name != "sqlite" or not name or name.startswith("file:"):
        return None
    return Path(name).absolute()


def make_private_file(path: Path) -> None:
    """Make the file of a new database readable by its owner alone: it holds the secrets that sign sessions.

    SQLite gives its write-ahead log the same mode. A file that is there keeps its mode; SQLite reports any other error.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def is_in_memory(url: URL) -> bool:
    """Return whether an address names no file: each connection would have a database of its own, without tables."""
    name = url.database or ""
    return name in ("", ":memory:") or name.startswith("file::memory:") or url.query.get("mode") == "memory"


def prepare_sqlite(engine: Engine) -> None:
    """Set the rules by which each connection waits, writes, begins a transaction, and reads text."""

    @event.listens_for(engine, "connect")
    def on_connect(connection: SqliteConnection, _: object) -> None:
        # The driver would begin transactions late and break savepoints; on_begin does it instead.
        connection.isolation_level = None
        # SQLite accepts any bytes as text; text from another program must not make a row unreadable.
        connection.text_factory = _decode
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT_SECONDS * 1000)}")
        connection.execute("PRAGMA journal_mode = WAL")
        # FULL, not NORMAL: in WAL mode NORMAL may lose acknowledged commits when the power fails.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        # In pages of 4 KB: a log of 16 MB is copied into the database at once, and each of its pages only once.
        connection.execute("PRAGMA wal_autocheckpoint = 4000")
        # An insert of many rows keeps a copy of the changed pages, to undo this insert alone. The copy is in memory,
        # and not in a temporary file for each commit.
        connection.execute("PRAGMA temp_store = MEMORY")
        # Deleted data is overwritten with zeros, so that the file contains no part of a deleted run.
        connection.execute("PRAGMA secure_delete = ON")
        # SQLite's own function changes only ASCII letters; PostgreSQL changes all letters.
        connection.create_function("lower", 1, _lower, deterministic=True)

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        # IMMEDIATE takes the write lock at once, so that no transaction fails later when it upgrades its lock.
        writes = connection.get_execution_options().get("rlvitals_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def forbid_new_file(engine: Engine, path: Path) -> None:
    """Let further connections fail if the file is gone; SQLite would create an empty one in its place."""

    @event.listens_for(engine, "do_connect")
    def on_do_connect(_: object, __: object, arguments: list[Any], options: dict[str, Any]) -> None:
        arguments[:1] = [f"file:{quote(str(path))}?mode=rw"]
        options["uri"] = True


def set_temporary_store(connection: Connection, where: str) -> None:
    """Let SQLite keep its sort and undo data in a ``FILE`` or in ``MEMORY``; not allowed in a transaction."""
    if connection.dialect.name == "sqlite":
        connection.connection.cursor().execute(f"PRAGMA temp_store = {where}")


def _decode(text: bytes) -> str:
    return text.decode(errors="replace")


def _lower(text: str | bytes | float | None) -> str | bytes | float | None:
    return text.lower() if isinstance(text, str) else text
