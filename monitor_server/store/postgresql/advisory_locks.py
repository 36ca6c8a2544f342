"""Locks that one of several collectors on a PostgreSQL database holds until its transaction ends.

A SQLite database needs no such lock, because one transaction writes at a time.
"""

from enum import IntEnum

from sqlalchemy import Connection, text

from monitor_server.store.installation import POSTGRES_NUMBER

__all__ = ["AdvisoryLock", "try_lock", "wait_for_lock"]


class AdvisoryLock(IntEnum):
    """The actions that one collector at a time may do, with numbers that no other program uses for a lock.

    PostgreSQL's locks belong to the whole database, so the upper half of a key is the number of the installation.
    """

    MIGRATION = 7_239_021
    MAINTENANCE = 7_239_022
    NOTIFICATION_PLANNING = 7_239_023
    NOTIFICATION_DOCUMENTS = 7_239_024
    RETENTION_LIMITS = 7_239_025
    RECORDED_SETTINGS = 7_239_026
    SAVED_VIEWS = 7_239_027
    API_KEYS = 7_239_028


def wait_for_lock(connection: Connection, lock: AdvisoryLock) -> None:
    """Wait until no other transaction holds a lock, and hold it until this transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_key(lock)})"))


def try_lock(connection: Connection, lock: AdvisoryLock) -> bool:
    """Try to hold a lock until the transaction ends; return False if another transaction holds it."""
    if connection.dialect.name != "postgresql":
        return True
    return bool(connection.execute(text(f"SELECT pg_try_advisory_xact_lock({_key(lock)})")).scalar())


def _key(lock: AdvisoryLock) -> str:
    """Return the SQL of a lock's key in the installation of a connection."""
    return f"{lock:d} + (({POSTGRES_NUMBER}) << 32)"
