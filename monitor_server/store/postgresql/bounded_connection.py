"""Connections to PostgreSQL that end when the server does not answer.

A server that was paused, whose disk hangs or whose packets are lost keeps its connections. Neither TCP nor the server's
own `statement_timeout` ends the wait for such a server.
"""

import time
from collections.abc import Generator
from typing import Any, Final, TypeVar

import psycopg
from psycopg.errors import ConnectionTimeout

from monitor_server.store.faults import Silent

__all__ = ["ANSWER_SECONDS", "BoundedConnection", "NoAnswer"]

# This is longer than the server lets a statement run or wait for a lock, so that the server's own error arrives first.
ANSWER_SECONDS: Final = 15.0

Result = TypeVar("Result")


class NoAnswer(psycopg.OperationalError, Silent):
    """The server has not answered for too long; the connection is closed, and a commit may have been made or not."""


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server has not answered within a time.

    Attributes:
        answer_seconds: The longest wait for an answer; None for no limit.
    """

    answer_seconds: float | None = ANSWER_SECONDS

    @property
    def takes_no_writes(self) -> bool:
        """Whether the server is a standby or read-only by a setting, as it says without a query.

        Raises:
            psycopg.OperationalError: If the connection is closed.
        """
        parameter = self.info.parameter_status
        return "on" in (parameter("in_hot_standby"), parameter("default_transaction_read_only"))

    @classmethod
    def connect(cls, *args: Any, **options: Any) -> "BoundedConnection":  # noqa: ANN401 - as the driver declares it
        """Connect as the driver does.

        Raises:
            NoAnswer: If the server has not accepted the connection within `connect_timeout`.
        """
        try:
            return super().connect(*args, **options)
        except ConnectionTimeout as error:
            raise NoAnswer("the database does not answer: no new connection was made in time") from error

    def wait(self, gen: Generator[Any, Any, Result], *args: Any, **options: Any) -> Result:  # noqa: ANN401 - likewise
        """Wait as the driver does.

        Raises:
            NoAnswer: If the answer has not arrived after `answer_seconds`.
        """
        return super().wait(self._bound_wait(gen), *args, **options)

    def _bound_wait(self, steps: Generator[Any, Any, Result]) -> Generator[Any, Any, Result]:
        """Pass on the driver's wait; it resumes ten times a second, even if no data has arrived."""
        begun = time.monotonic()
        try:
            wanted = next(steps)
            while True:
                wanted = steps.send((yield wanted))
                if self.answer_seconds is not None and time.monotonic() - begun > self.answer_seconds:
                    self.close()
                    raise NoAnswer(f"the database does not answer: nothing came from it for {self.answer_seconds:g} s")
        except StopIteration as end:
            result: Result = end.value
            return result
