"""Locks tables of PostgreSQL for a migration, without blocking those who use them for long."""

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, text

from monitor_server.store.installation import POSTGRES_NUMBER
from monitor_server.store.postgresql.advisory_locks import AdvisoryLock

__all__ = ["lock_tables", "oldest_holder"]

_THERE: Final = (
    "SELECT name FROM unnest(CAST(:names AS text[])) AS name WHERE to_regclass(quote_ident(name)) IS NOT NULL"
)
_HOLDER: Final = f"""
SELECT pid, application_name, extract(epoch FROM clock_timestamp() - xact_start) AS seconds FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND pid IN (
  SELECT pid FROM pg_locks WHERE granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (relation IN (SELECT to_regclass(quote_ident(name)) FROM unnest(CAST(:names AS text[])) AS name)
       OR locktype = 'advisory' AND objid = {AdvisoryLock.MIGRATION:d} AND classid = ({POSTGRES_NUMBER}))
) ORDER BY xact_start LIMIT 1
"""  # noqa: S608 - our numbers


def lock_tables(connection: Connection, names: Iterable[str], *, seconds: float) -> None:
    """Lock those tables that are there until the transaction ends, against readers and writers; wait for each a while.

    Whoever asks for a table meanwhile waits behind this transaction, so a long wait would block all others.

    Args:
        connection: In a transaction; its later statements wait as long for a lock.
        names: The tables, in the order in which to lock them.
        seconds: The longest wait for one table; for all of them it is twice as long.
    """
    names = list(names)
    there = set(connection.execute(text(_THERE), {"names": names}).scalars())
    if not there:
        return
    milliseconds = round(seconds * 1000)
    connection.execute(text(f"SET LOCAL lock_timeout = {milliseconds}"))
    connection.execute(text(f"SET LOCAL statement_timeout = {2 * milliseconds}"))
    quote = connection.dialect.identifier_preparer.quote
    listed = ", ".join(quote(name) for name in names if name in there)
    connection.execute(text(f"LOCK TABLE {listed} IN ACCESS EXCLUSIVE MODE"))


def oldest_holder(connection: Connection, names: Iterable[str]) -> str | None:
    """Return in words whose transaction has used the tables, or migrated them, for the longest time; None if nobody."""
    found = connection.execute(text(_HOLDER), {"names": list(names)}).one_or_none()
    if found is None:
        return None
    program = f" ({found.application_name})" if found.application_name else ""
    return f"process {found.pid}{program} of PostgreSQL, in a transaction of {found.seconds:.0f} s"
