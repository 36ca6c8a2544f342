"""A transaction of one statement, in one exchange with the server in place of three."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection

__all__ = ["as_whole_transaction", "is_under_way"]


@contextmanager
def as_whole_transaction(connection: Connection) -> Iterator[None]:
    """Commit the one statement of the block with the statement itself, if nothing precedes it in the transaction.

    The driver sends BEGIN before the first statement, and waits for each answer. Here it sends neither BEGIN nor
    COMMIT. If a statement precedes the block, the transaction continues and is committed as always.
    """
    if is_under_way(connection):
        yield
        return
    driver: Any = connection.connection.driver_connection
    driver.autocommit = True
    try:
        yield
    finally:
        if not driver.closed:  # a connection that was lost in the block raises its own error
            driver.autocommit = False


def is_under_way(connection: Connection) -> bool:
    """Return whether the transaction of a block has a statement that is not committed; on SQLite it always has."""
    if connection.dialect.name != "postgresql":
        return True
    from psycopg.pq import TransactionStatus  # noqa: PLC0415 - psycopg is an extra

    driver: Any = connection.connection.driver_connection
    return bool(driver.info.transaction_status != TransactionStatus.IDLE)
