"""A statement of PostgreSQL that is a whole transaction, and what it does to its connection."""

from contextlib import suppress

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError

from monitor_server.store.postgresql.single_statement import as_whole_transaction
from tests.postgres import create_database


@pytest.fixture
def engine(postgres):
    """An engine with one connection, which every transaction of the test uses, and a table of numbers."""
    engine = create_engine(create_database(postgres), pool_size=1, max_overflow=0)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE numbers (number INTEGER)")
    yield engine
    engine.dispose()


def _numbers(engine):
    with engine.begin() as connection:
        return list(connection.exec_driver_sql("SELECT number FROM numbers ORDER BY number").scalars())


def test_a_statement_without_another_before_it_is_committed_at_once(engine):
    """So an error after it undoes nothing."""
    with suppress(LookupError), engine.begin() as connection:
        with as_whole_transaction(connection):
            connection.exec_driver_sql("INSERT INTO numbers VALUES (1)")
        raise LookupError
    assert _numbers(engine) == [1]


def test_a_statement_after_another_one_is_committed_with_it(engine):
    """And is undone with it."""
    with suppress(LookupError), engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO numbers VALUES (1)")
        with as_whole_transaction(connection):
            connection.exec_driver_sql("INSERT INTO numbers VALUES (2)")
        raise LookupError
    assert _numbers(engine) == []


def test_the_next_transaction_of_the_connection_is_an_ordinary_one(engine):
    """The driver begins it again, and it can be undone."""
    with engine.begin() as connection, as_whole_transaction(connection):
        connection.exec_driver_sql("INSERT INTO numbers VALUES (1)")
    with suppress(LookupError), engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO numbers VALUES (2)")
        raise LookupError
    assert _numbers(engine) == [1]


def test_a_connection_that_is_lost_in_the_statement_raises_the_error_of_the_server(engine):
    """The state of the lost connection cannot be set back, and the pool makes another one."""
    with (
        pytest.raises(OperationalError, match="terminating connection"),
        engine.begin() as connection,
        as_whole_transaction(connection),
    ):
        connection.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")
    assert _numbers(engine) == []
