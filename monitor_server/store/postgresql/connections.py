"""Makes connections to PostgreSQL, tests them before they are used again, and limits their time."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, event, text
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

from monitor_server.errors import DatabaseUnusable

__all__ = [
    "POSTGRES_OPTIONS",
    "given_options",
    "postgres_options",
    "prepare_postgres",
    "require_own_sessions",
    "require_suitable",
    "without_time_limit",
]

# The server itself ends a statement that waits for a lock or takes too long, and its error states which of the two it
# was. A process that is paused in a transaction keeps its runs locked; the server ends its connection after this time.
# A transaction that writes locks a run and then reads what others have committed, whatever the database's default is.
POSTGRES_OPTIONS: Final[dict[str, Any]] = {
    # No table has such a column, and the search for the type costs each start three queries.
    "use_native_hstore": False,
    "connect_args": {
        "connect_timeout": 10,
        "client_encoding": "utf8",  # without it, the driver would return bytes from a database in SQL_ASCII
        # The last one is not a setting of the server: it shows that the other ones have arrived.
        "options": "-c idle_in_transaction_session_timeout=15000 -c lock_timeout=10000 -c statement_timeout=12000 "
        "-c default_transaction_isolation=read\\ committed -c rlvitals.options=arrived",
    },
}
# The default of a server or database may let it answer before a commit is on its disk. The other values stay: they say
# how many servers a commit must reach.
# Records are written as arrays of texts, of which one may be missing.
# The driver reads numbers as text, and another default may round them: a time that was read would equal no stored one.
# The limit of a whole transaction, of PostgreSQL 17 and later, would end a migration. An older server refuses to start
# a connection with such an option.
_SETTINGS: Final = (
    "SELECT set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), false), "
    "set_config('extra_float_digits', '1', false), set_config('array_nulls', 'on', false), "
    "CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL "
    "THEN set_config('transaction_timeout', '0', false) END"
)
# A connection that was used within this time is used again without a test, because a test costs as much as a query.
UNTESTED_SECONDS: Final = 1.0
# A busy server answers a test in milliseconds.
TEST_SECONDS: Final = 5.0
# During a failover an address may lead to a replica for a moment, and a healthy replica keeps its connections. A
# connection that takes no writes is used for this time, because readers go on if there is no other server either.
READ_ONLY_SECONDS: Final = 5.0


def postgres_options(url: URL) -> dict[str, Any]:
    """Return the options of an engine: our defaults, and the options of the address, which take precedence."""
    ours = dict(POSTGRES_OPTIONS["connect_args"])
    ours["options"] = f"{ours['options']} {given_options(url)}".rstrip()
    if "connect_timeout" in url.query:
        del ours["connect_timeout"]
    return POSTGRES_OPTIONS | {"connect_args": ours}


def given_options(url: URL) -> str:
    """Return the options of an address, which may name them several times."""
    given = url.query.get("options", "")
    return given if isinstance(given, str) else " ".join(given)


def prepare_postgres(engine: Engine) -> None:
    """Limit the waits of an engine's connections, and replace those that are lost, closed or lead to a replica.

    Their commits are on the server's disk when they return, and nothing but our own limits ends their transactions.
    """
    from monitor_server.store.postgresql.bounded_connection import BoundedConnection  # noqa: PLC0415 - psycopg is an extra

    @event.listens_for(engine, "do_connect")
    def on_do_connect(_: object, __: object, arguments: list[Any], options: dict[str, Any]) -> BoundedConnection:
        connection = BoundedConnection.connect(*arguments, **options)
        connection.autocommit = True
        connection.execute(_SETTINGS)
        connection.autocommit = False
        return connection

    @event.listens_for(engine, "connect")
    def on_connect(_: object, record: ConnectionPoolEntry) -> None:
        record.info["rlvitals_made_at"] = time.monotonic()

    @event.listens_for(engine, "checkin")
    def on_checkin(_: object, record: ConnectionPoolEntry) -> None:
        record.info["rlvitals_used_at"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def on_checkout(connection: Any, record: ConnectionPoolEntry, _: object) -> None:  # noqa: ANN401 - the driver's
        now, used_at = time.monotonic(), record.info.get("rlvitals_used_at")
        if used_at is None:
            return
        try:
            if now - used_at >= UNTESTED_SECONDS:
                test(connection)
            is_read_only = connection.takes_no_writes
        except engine.dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError from error
        if is_read_only and now - record.info["rlvitals_made_at"] > READ_ONLY_SECONDS:
            raise InvalidatePoolError

    def test(connection: Any) -> None:  # noqa: ANN401 - the driver's
        usual, connection.answer_seconds = connection.answer_seconds, TEST_SECONDS
        try:
            engine.dialect.do_ping(connection)
        finally:
            connection.answer_seconds = usual


def require_suitable(connection: Connection) -> None:
    """Check that rlvitals can use a database; SQLite is always suitable.

    Raises:
        DatabaseUnusable: If it cannot be written or cannot store every text, or a program in between has dropped the
            options of the connection. A pooler does this, and also breaks prepared statements in its transaction mode.
    """
    if connection.dialect.name != "postgresql":
        return
    encoding, read_only, options = connection.execute(
        text(
            "SELECT current_setting('server_encoding'), current_setting('transaction_read_only'), "
            "current_setting('rlvitals.options', true)"
        )
    ).one()
    if encoding != "UTF8":
        raise DatabaseUnusable(
            f"the database must have the encoding UTF8, and it has {encoding}, which cannot store every name; make "
            "another one: createdb --encoding=UTF8 --template=template0"
        )
    if read_only == "on":
        raise DatabaseUnusable(
            "the database must take writes, and it does not: it is a replica, or default_transaction_read_only is on; "
            "set RLVITALS_DATABASE_URL or --database to the address of the primary server"
        )
    if options != "arrived":
        raise DatabaseUnusable(
            "the options of a connection must reach PostgreSQL, and they did not, as with a pooler that ignores them; "
            "set RLVITALS_DATABASE_URL or --database to the address of PostgreSQL itself (docs/scaling.md)"
        )


def require_own_sessions(connection: Connection) -> None:
    """Check that each connection has a session of its own, also behind a pooler; SQLite needs none.

    A pooler gives its clients a process number of its own. In its transaction mode a session is given from client to
    client, with what the last one has prepared and set. Only behind a pooler is a second connection opened. The
    transaction of the connection is ended, so that such a pooler can give its session away.

    Raises:
        DatabaseUnusable: If two connections share a session, or a connection does not keep its own.
    """
    if connection.dialect.name != "postgresql":
        return
    driver: Any = connection.connection.driver_connection
    is_direct = connection.scalar(text("SELECT pg_backend_pid()")) == driver.info.backend_pid
    mark, asked = uuid.uuid4().hex, text("SELECT current_setting('rlvitals.session', true)")
    if not is_direct:
        connection.execute(text("SELECT set_config('rlvitals.session', :mark, false)"), {"mark": mark})
    connection.commit()
    if is_direct:
        return
    with connection.engine.connect() as other:
        found = other.scalar(asked)
    kept = connection.scalar(asked)  # others that start meanwhile may have got the session
    connection.commit()
    if found == mark or kept != mark:
        raise DatabaseUnusable(
            "each connection must have a session of PostgreSQL, and a pooler gives one session to several: it has the "
            "mode transaction or statement; set RLVITALS_DATABASE_URL or --database to the address of PostgreSQL "
            "itself, or set the mode session (docs/scaling.md)"
        )


@contextmanager
def without_time_limit(connection: Connection) -> Iterator[None]:
    """Remove the time limit of the statements in a transaction, for example for a migration of large tables."""
    if connection.dialect.name != "postgresql":
        yield
        return
    driver: Any = connection.connection.driver_connection
    usual, driver.answer_seconds = driver.answer_seconds, None
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    try:
        yield
    finally:
        driver.answer_seconds = usual
