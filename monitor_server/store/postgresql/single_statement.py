"""A transaction of one statement, in one exchange with the server in place of three."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection

__all__ = ["as_whole_transaction"]


@contextmanager
def as_whole_transaction(connection: Connection) -> Iterator[None]:
    """Commit the one statement of the block with the statement itself, if nothing precedes it in the transaction.

    The driver sends BEGIN before the first statement, and waits for each answer. Here it sends neither BEGIN nor
    COMMIT. If a statement precedes the block, the transaction continues and is committed as always.
    """
    driver = connection.connection.driver_connection
    if not isinstance(driver, psycopg.Connection) or driver.info.transaction_status != TransactionStatus.IDLE:
        yield
        return
    driver.autocommit = True
    try:
        yield
    finally:
        if not driver.closed:  # a connection that was lost in the block raises its own error
            driver.autocommit = False
