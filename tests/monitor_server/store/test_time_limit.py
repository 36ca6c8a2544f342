"""A statement that takes too long is ended, and the transaction of its reader goes on."""

import time

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from monitor_server.store.time_limit import Deadline, OutOfTimeError
from tests.store_connections import current_connection

ENDLESS = {
    "sqlite": "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
    "postgresql": "SELECT pg_sleep(86400)",
}


def test_a_statement_without_an_end_is_ended_and_others_are_not(store):
    """The real database ends it; later reads, and those of the next transaction, have their whole time."""
    with store.read() as repositories:
        connection = current_connection()
        deadline = Deadline(0.05)
        with pytest.raises(OutOfTimeError), deadline.limits(connection):
            connection.execute(text(ENDLESS[connection.dialect.name])).all()
        with pytest.raises(OutOfTimeError), deadline.limits(connection):  # the time is over before it begins
            connection.execute(text(ENDLESS[connection.dialect.name])).all()
        assert repositories.runs.exists("nobody") is False
        if connection.dialect.name == "postgresql":
            assert connection.execute(text("SHOW statement_timeout")).scalar_one() == "12s"
    with store.write() as repositories:
        repositories.probe()


def test_what_ends_in_time_is_read(store):
    """The settings of the connection stay unchanged."""
    with store.read():
        connection = current_connection()
        with Deadline(3_600).limits(connection):
            assert connection.execute(text("SELECT 1")).scalar_one() == 1
        if connection.dialect.name == "postgresql":
            assert connection.execute(text("SHOW statement_timeout")).scalar_one() == "12s"


def test_another_error_is_not_taken_for_a_lack_of_time(store):
    """A database that fails is said to fail."""
    with store.read():
        connection = current_connection()
        is_sqlite = connection.dialect.name == "sqlite"
        failing = "SELECT abs(-9223372036854775808)" if is_sqlite else "SET LOCAL lock_timeout = -5"
        with pytest.raises(Exception, match=r"overflow|outside the valid range") as raised:  # noqa: SIM117
            with Deadline(3_600, monotonic=time.monotonic).limits(connection):
                connection.execute(text(failing)).all()
    assert not isinstance(raised.value, OutOfTimeError)
    assert isinstance(raised.value, OperationalError) == is_sqlite
