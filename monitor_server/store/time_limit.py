"""Ends the statements of a reader that take too long; its transaction continues."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

__all__ = ["Deadline", "OutOfTimeError"]

# The instructions of SQLite's virtual machine between two checks of the clock, which are some hundred microseconds.
INSTRUCTIONS: Final = 10_000
ENDED: Final = ("SQLITE_INTERRUPT", "57014")  # the codes of SQLite and of PostgreSQL


class OutOfTimeError(Exception):
    """The time for reading is over."""


class Deadline:
    """A moment at which reading ends.

    Args:
        seconds: The time from now on.
        monotonic: A clock in seconds.
    """

    def __init__(self, seconds: float, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._end = monotonic() + seconds

    @contextmanager
    def limits(self, connection: Connection) -> Iterator[None]:
        """Limit the time of a block that only reads; on PostgreSQL, writes of the block would be undone.

        Raises:
            OutOfTimeError: If the time is over, or ends while a statement is executed.
        """
        left = self._end - self._monotonic()
        if left <= 0:
            raise OutOfTimeError
        try:
            with (self._on_sqlite if connection.dialect.name == "sqlite" else self._on_postgres)(connection, left):
                yield
        except OperationalError as error:
            code = getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None)
            if code in ENDED:
                raise OutOfTimeError from None
            raise

    @contextmanager
    def _on_sqlite(self, connection: Connection, _: float) -> Iterator[None]:
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(lambda: self._monotonic() >= self._end, INSTRUCTIONS)
        try:
            yield
        finally:
            driver.set_progress_handler(None, 0)

    @contextmanager
    def _on_postgres(self, connection: Connection, left: float) -> Iterator[None]:
        savepoint = connection.begin_nested()
        try:
            connection.execute(text(f"SET LOCAL statement_timeout = {max(1, int(left * 1000))}"))
            yield
        finally:
            savepoint.rollback()  # this ends the setting, and lets the transaction continue after a statement was ended
