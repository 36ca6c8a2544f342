"""Reads the state of a database without creating or migrating it."""

from pathlib import Path
from typing import Any

from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError

from monitor_server.errors import DatabaseUnusable
from monitor_server.store.address import read_address, shown_url
from monitor_server.store.database_state import DatabaseState, read_state
from monitor_server.store.postgresql.connections import postgres_options, prepare_postgres, require_suitable
from monitor_server.store.sqlite.database_file import free_bytes
from monitor_server.text_safety.printable import one_line

__all__ = ["inspect_database"]


def inspect_database(url: str) -> DatabaseState | None:
    """Return the state of a database; None if there is no such file.

    Raises:
        DatabaseUnusable: If the URL is not valid, the database does not answer, or the file is not a database.
    """
    parsed = read_address(url)
    options: dict[str, Any] = {} if parsed.get_backend_name() == "sqlite" else postgres_options(parsed)
    engine = create_engine(parsed, **options)
    if options:
        prepare_postgres(engine)
    file = Path(parsed.database).absolute() if not options and parsed.database else None
    if file is not None and not file.exists():
        return None
    try:
        with engine.connect() as connection:
            require_suitable(connection)
            return read_state(connection, free_bytes=None if file is None else free_bytes(file))
    except DBAPIError as error:
        raise DatabaseUnusable(f"the database {shown_url(url)} cannot be read: {one_line(error.orig)}") from error
    finally:
        engine.dispose()
